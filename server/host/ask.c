/* Interpreters asked about themselves. Runs in the warden, when the configuration is read, and on the command
 * line. What they are asked ends with a line that says so: an answer without it is none. */
#include "server/host/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"

#define PATIENCE_NS (10 * NS_PER_S)
/* A first import of large packages reads much, and looks for every font. */
#define PACKAGES_NS  (60 * NS_PER_S)
#define ANSWER_BYTES 65536u
#define NOBODY       65534u

static const char end_line[] = "end of answer\n";

/* No .pth file of an environment is read (-S): that would be to run what lies there. The libraries of modules
 * that link some are found by what is mapped once they are imported, and by the names that lead to that.
 * A directory in the place of the zip file that every Python looks for first is searched like any other;
 * where Debian has a directory for the host's own packages, .pth files in there are read. */
static const char about_python[] =
    "import os, sys\n"
    "def tell(word, value):\n"
    "    sys.stdout.write(word + ' ' + value + '\\n')\n"
    "tell('version', '%d.%d.%d' % sys.version_info[:3])\n"
    "tell('executable', sys.executable)\n"
    "startup = ''\n"
    "for path in sys.path:\n"
    "    if os.path.isdir(path):\n"
    "        tell('need', path)\n"
    "    elif path.endswith('.zip') and not os.path.exists(path):\n"
    "        startup = path + '/sitecustomize.py'\n"
    "here = os.path.dirname(sys.executable)\n"
    "environment = any(os.path.exists(d + '/pyvenv.cfg') for d in (here, os.path.dirname(here)))\n"
    "if sys.base_prefix == '/usr' and not environment:\n"
    "    import site\n"
    "    first = site.getsitepackages(['/usr'])[0]\n"
    "    if first.endswith('/dist-packages'):\n"
    "        startup = first + '/immure.pth'\n"
    "if startup:\n"
    "    tell('startup', startup)\n"
    "if sys.base_prefix != '/usr':\n"
    "    for name in '_bz2 _ctypes _hashlib _lzma _sqlite3 _ssl _uuid readline zlib'.split():\n"
    "        try:\n"
    "            __import__(name)\n"
    "        except ImportError:\n"
    "            pass\n"
    "for line in open('/proc/self/maps'):\n"
    "    path = line.split(None, 5)[5:]\n"
    "    path = path[0].rstrip('\\n') if path else ''\n"
    "    if path.startswith('/') and os.path.dirname(path) != sys.argv[1] and os.path.isfile(path):\n"
    "        near = os.path.dirname(path)\n"
    "        if '.so' in path and not near.endswith('/lib-dynload'):\n"
    "            for name in os.listdir(near):\n"
    "                if '.so' in name and os.path.realpath(near + '/' + name) == path:\n"
    "                    tell('need', near + '/' + name)\n"
    "sys.stdout.write('end of answer\\n')\n";

/* Debian's Node reads parts of itself from files, whose names lie in its library. */
static const char about_node[] =
    "const fs = require('fs'), path = require('path'), told = new Set();\n"
    "const tell = (word, value) => process.stdout.write(`${word} ${value}\\n`);\n"
    "tell('version', process.versions.node);\n"
    "tell('executable', process.execPath);\n"
    "const place = path.dirname(path.dirname(process.execPath)) + '/lib/node_modules';\n"
    "if (!process.execPath.startsWith('/usr/') && fs.existsSync(place)) tell('need', place);\n"
    "for (const line of fs.readFileSync('/proc/self/maps', 'latin1').split('\\n')) {\n"
    "    const file = line.slice(line.indexOf('/'));\n"
    "    if (!line.includes('/libnode.so') || told.has(file)) continue;\n"
    "    told.add(file);\n"
    "    const text = fs.readFileSync(file), start = '/usr/share/nodejs/';\n"
    "    for (let at = text.indexOf(start); at >= 0; at = text.indexOf(start, at + 1)) {\n"
    "        const name = /^[\\w@.-]+(?=\\/)/.exec(text.latin1Slice(at + start.length, at + 100));\n"
    "        if (name && !told.has(name[0]) && fs.existsSync(start + name[0])) tell('need', start + "
    "name[0]);\n"
    "        if (name) told.add(name[0]);\n"
    "    }\n"
    "}\n"
    "tell('end', 'of answer');\n";

/* What lies beside Python's library: with site, and so with what .pth files do. What the modules open outside
 * of the directories that they are looked for in are their data: below /usr/share that package's directory,
 * else the file. Shared libraries as above; Debian's alternatives lead from the C library's directory to
 * others in there. Nothing is to write into anybody's home. */
static const char about_packages[] =
    "import atexit, os, sys\n"
    "answer = os.fdopen(os.dup(1), 'w')\n"
    "os.dup2(2, 1)\n"
    "def tell(word, value):\n"
    "    if '\\n' not in value:\n"
    "        answer.write(word + ' ' + value + '\\n')\n"
    "def end():\n"
    "    atexit._run_exitfuncs()\n"
    "    tell('end', 'of answer')\n"
    "    answer.flush()\n"
    "    os._exit(0)\n"
    "def refuse(why):\n"
    "    tell('refuse', ' '.join(why.split())[:200])\n"
    "    end()\n"
    "for name in 'BLIS MKL NUMEXPR OMP OPENBLAS'.split():\n"
    "    os.environ[name + '_NUM_THREADS'] = '1'\n"
    "os.environ['MPLBACKEND'] = 'Agg'\n"
    "os.environ['HOME'] = '/nonexistent'\n"
    "libraries, environment = sys.argv[1:3]\n"
    "if environment.endswith('/dist-packages'):\n"
    "    sys.path[:] = [p for p in sys.path if p == environment or not p.endswith('-packages')]\n"
    "    if environment not in sys.path:\n"
    "        refuse(environment + ' is none of the directories of this interpreter')\n"
    "shown = [p for p in sys.path if os.path.isdir(p)]\n"
    "for path in shown:\n"
    "    tell('need', path)\n"
    "shown += [libraries, environment]\n"
    "def is_shown(path):\n"
    "    return any(path.startswith(above + '/') for above in shown)\n"
    "module, opened = '', {}\n"
    "def watch(event, args):\n"
    "    if event == 'open' and isinstance(args[0], (str, bytes)):\n"
    "        opened.setdefault(os.path.abspath(os.fsdecode(args[0])), module)\n"
    "sys.addaudithook(watch)\n"
    "for module in sys.argv[3:]:\n"
    "    try:\n"
    "        __import__(module)\n"
    "    except BaseException as error:\n"
    "        refuse(module + ' cannot be imported: ' + repr(error))\n"
    "elsewhere = '/proc/', '/sys/', '/dev/', '/run/', '/tmp/', '/var/tmp/'\n"
    "for opening, module in list(opened.items()):\n"
    "    for path in opening, os.path.realpath(opening):\n"
    "        if is_shown(path) or path.startswith(elsewhere) or not os.path.isfile(path):\n"
    "            continue\n"
    "        if not path.startswith(('/usr/', '/etc/')):\n"
    "            refuse(module + ' reads ' + path + ', which is neither in the environment nor in /usr or "
    "/etc')\n"
    "        head, share, tail = path.partition('/share/')\n"
    "        if share and '/' in tail:\n"
    "            path = head + share + tail.split('/')[0]\n"
    "        tell('need', path)\n"
    "        shown.append(path)\n"
    "for line in open('/proc/self/maps'):\n"
    "    path = (line.split(None, 5)[5:] or [''])[0].rstrip('\\n')\n"
    "    if '.so' in path and not is_shown(path) and os.path.isfile(path):\n"
    "        near = os.path.dirname(path)\n"
    "        for name in os.listdir(near):\n"
    "            if '.so' in name and os.path.realpath(near + '/' + name) == path:\n"
    "                tell('need', near + '/' + name)\n"
    "for name in os.listdir(libraries) if libraries else ():\n"
    "    path = libraries + '/' + name\n"
    "    link = os.readlink(path) if '.so.' in name and os.path.islink(path) else ''\n"
    "    if link.startswith('/etc/alternatives/') and os.path.realpath(path).startswith(libraries + '/'):\n"
    "        tell('link', link + ' ' + os.path.realpath(path))\n"
    "from importlib import metadata\n"
    "found = {}\n"
    "for one in metadata.distributions(path=[p for p in sys.path if p.endswith('-packages')]):\n"
    "    name, version = one.metadata['Name'], one.version\n"
    "    if isinstance(name, str) and isinstance(version, str) and len(name + version) < 100:\n"
    "        found.setdefault(name, version)\n"
    "for name in sorted(found, key=str.lower)[:256]:\n"
    "    tell('package', name + ' ' + found[name])\n"
    "end()\n";

static const char about_bash[] =
    "echo \"version ${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]}.${BASH_VERSINFO[2]}\"; echo end of answer";

/* An interpreter that root has configured need not be root's to change. Where nobody is not in our user
 * namespace, it keeps the id, and nothing that comes with it. */
static bool give_up_root(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
    return geteuid() != 0 ||
           (setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
            setresuid(NOBODY, NOBODY, NOBODY) == 0) ||
           syscall(SYS_capset, &header, none) == 0;
}

static void become(const char *path, char *const *argv, int null, int answer)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (setsid() < 0 || chdir("/") < 0 || dup2(null, 0) < 0 || dup2(answer, 1) < 0 || dup2(null, 2) < 0 ||
        close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        !give_up_root() || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) {
        _exit(127);
    }
    execve(path, argv, (char *[]){NULL});
    _exit(127);
}

static bool is_complete(const struct buf *answer)
{
    size_t length = strlen(end_line);
    return answer->len >= length && memcmp(answer->data + answer->len - length, end_line, length) == 0;
}

/* Until it has said all, or too much, ends, or the time is over. */
static void listen_to(int fd, uint64_t patience_ns, struct buf *ret)
{
    uint64_t end_ns = clock_now_ns() + patience_ns;
    while (ret->len < ANSWER_BYTES && !is_complete(ret)) {
        struct pollfd polled = {.fd = fd, .events = POLLIN};
        uint64_t now_ns = clock_now_ns();
        char *to = buf_reserve(ret, 4096);
        int n = now_ns < end_ns && to ? poll(&polled, 1, (int)((end_ns - now_ns) / NS_PER_MS) + 1) : 0;
        ssize_t got = n > 0 ? read(fd, to, 4096) : n;
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return;
        }
        ret->len += (size_t)got;
    }
}

static int ask(const char *path, char *const *argv, uint64_t patience_ns, struct buf *ret, struct err *reterr)
{
    int ends[2];
    CLEANUP(fd_closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || pipe2(ends, O_CLOEXEC) < 0) {
        return err_errno(reterr, errno, "asking %s", path);
    }
    CLEANUP(fd_closep) int from = ends[0];
    pid_t pid = fork();
    if (pid == 0) {
        become(path, argv, null, ends[1]);
    }
    int code = errno;
    close(ends[1]);
    if (pid < 0) {
        return err_errno(reterr, code, "asking %s", path);
    }
    listen_to(from, patience_ns, ret);
    kill(-pid, SIGKILL); /* with what it has started */
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
    bool complete = !ret->failed && is_complete(ret) && buf_putc(ret, '\0') == 0;
    return complete ? 0
                    : err_set(reterr, ERR_HOST, ENOEXEC, NULL,
                              "it does not say what it is when it is started with an empty environment");
}

static char *word(const char *text)
{
    return (char *)(uintptr_t)text;
}

int ask_python(const char *path, const char *libraries, struct buf *ret, struct err *reterr)
{
    char *const argv[] = {word(path), word("-I"),         word("-S"),      word("-B"),
                          word("-c"), word(about_python), word(libraries), NULL};
    return ask(path, argv, PATIENCE_NS, ret, reterr);
}

int ask_packages(const char *path, const char *libraries, const char *environment, char *const *modules,
                 size_t n_modules, struct buf *ret, struct err *reterr)
{
    char *const begin[] = {word(path),           word("-I"),      word("-B"),       word("-c"),
                           word(about_packages), word(libraries), word(environment)};
    CLEANUP(freep) char **argv = calloc(ARRAY_SIZE(begin) + n_modules + 1, sizeof *argv);
    if (!argv) {
        return err_errno(reterr, ENOMEM, "asking %s", path);
    }
    memcpy(argv, begin, sizeof begin);
    for (size_t i = 0; i < n_modules; i++) {
        argv[ARRAY_SIZE(begin) + i] = modules[i];
    }
    return ask(path, argv, PACKAGES_NS, ret, reterr);
}

int ask_node(const char *path, struct buf *ret, struct err *reterr)
{
    char *const argv[] = {word(path), word("-e"), word(about_node), NULL};
    return ask(path, argv, PATIENCE_NS, ret, reterr);
}

int ask_bash(const char *path, struct buf *ret, struct err *reterr)
{
    char *const argv[] = {word(path), word("--norc"),   word("--noprofile"),
                          word("-c"), word(about_bash), NULL};
    return ask(path, argv, PATIENCE_NS, ret, reterr);
}
