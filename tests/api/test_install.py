"""install_package(): wheels, sdists and directories of the workspace, without a network."""

import threading

import pytest

from packages import failure, run, sdist, source, upload, wheel


def test_wheel_of_the_workspace(server):
    """It can be imported at once and by later jobs of the session, by nobody else, and is not among the output files."""
    verdict = run(server, "install_package('first-1.0-py3-none-any.whl')\nimport first\nprint(first.VERSION)",
                  files=[upload(wheel("first"))], session_id="wheel")
    assert (verdict["stdout"], verdict["stderr"]) == ("1.0\n", "")
    assert verdict["output_files"] == [] and verdict["denied_syscalls"] == []
    later = "import first, subprocess, sys\nprint(first.VERSION, subprocess.check_output([sys.executable, '-c', 'import first']))"
    assert run(server, later, session_id="wheel")["stdout"] == "1.0 b''\n"
    for other in {"session_id": "wheel-2"}, {}:
        assert failure(server, "import first", **other) == "ModuleNotFoundError: No module named 'first'"


def test_without_a_session_it_goes_with_the_job(server):
    assert run(server, "install_package('./one-1.0-py3-none-any.whl')\nimport one", files=[upload(wheel("one"))])["stdout"] == ""
    assert failure(server, "import one") == "ModuleNotFoundError: No module named 'one'"


def test_another_version_takes_the_place(server):
    files = [upload(wheel("again", version)) for version in ("1.0", "2.0")]
    run(server, "install_package('again-1.0-py3-none-any.whl')", files=files, session_id="again")
    look = "import again, importlib.metadata\nprint(again.VERSION, importlib.metadata.version('again'))"
    assert run(server, "install_package('again-2.0-py3-none-any.whl')\n" + look, session_id="again")["stdout"] == "2.0 2.0\n"
    assert run(server, look, session_id="again")["stdout"] == "2.0 2.0\n"


def test_directory(server):
    """Built with the host's setuptools; the program's own modules are not in the way of pip."""
    files = [upload((f"src/{path}", text)) for path, text in source("made").items()]
    files += [upload((f"{name}.py", "raise SystemExit('of the program')")) for name in ("re", "json", "subprocess", "typing")]
    assert run(server, "install_package('./src')\nimport made\nprint(made.VERSION)", files=files)["stdout"] == "1.0\n"


def test_dependencies(server):
    """They are found if they are installed; without an index nothing else is."""
    base, top = wheel("base", "1.5"), wheel("top", requires=["base>=1.2"])
    install = "install_package('top-1.0-py3-none-any.whl')"
    assert failure(server, install, files=[upload(top)], session_id="needs") == (
        "RuntimeError: pip install top-1.0-py3-none-any.whl failed: No matching distribution found for base>=1.2")
    run(server, "install_package('base-1.5-py3-none-any.whl')\n" + install + "\nimport top, base", files=[upload(base)],
        session_id="needs")


def test_it_does_not_come_before_the_standard_library(server):
    files = {"shadowing/__init__.py": "", "colorsys.py": "raise SystemExit('not the library')"}
    run(server, "install_package('shadowing-1.0-py3-none-any.whl')\nimport colorsys, shadowing",
        files=[upload(wheel("shadowing", files=files))])


@pytest.mark.parametrize("name, why", [
    ("'left-pad'", "this server has no package index; wheels and directories can be installed"),
    ("'-r requirements.txt'", "options and URLs are not taken, only names and paths"),
    ("'--index-url=http://10.0.0.1/'", "options and URLs are not taken, only names and paths"),
    ("'https://127.0.0.1/a.whl'", "options and URLs are not taken, only names and paths"),
    ("'git+ssh://host/repository'", "options and URLs are not taken, only names and paths"),
    ("'name @ file:///etc'", "options and URLs are not taken, only names and paths"),
    ("''", "that is no name of a package"),
    ("'a;b'", "that is no name of a package"),
    ("'a\\nb'", "that is no name of a package"),
    ("'a' * 600", "that is no name of a package"),
    ("'/etc/passwd'", "it lies neither in the working directory nor in /tmp"),
    ("'../usr/lib/python3.11'", "it lies neither in the working directory nor in /tmp"),
    ("'link.whl'", "it lies neither in the working directory nor in /tmp"),
    ("'./missing'", "./missing: No such file or directory"),
    ("'./text'", "it is no wheel, sdist or directory"),
    ("'./bad-1.0-py3-none-any.whl'", "Wheel 'bad' located at /workspace/bad-1.0-py3-none-any.whl is invalid."),
    ("'./empty'", "Directory '/workspace/empty' is not installable. Neither 'setup.py' nor 'pyproject.toml' found."),
])
def test_what_cannot_be_installed(server, name, why):
    prepare = ("import os\nos.symlink('/usr/share/python-wheels', 'link.whl')\nopen('text', 'w').close()\nos.mkdir('empty')\n"
               "open('bad-1.0-py3-none-any.whl', 'w').write('x')\n")
    text = eval(name)
    error = failure(server, f"{prepare}install_package({name})")
    shown = text.splitlines()[-1] if text else text
    assert error.endswith(f"{shown} failed: {why}") and (error.startswith("RuntimeError: pip install ") or "\n" in text), error


def test_a_name_is_a_text(server):
    assert failure(server, "install_package(7)") == "TypeError: install_package: the name must be a str, not int"


def test_a_build_that_fails_says_why(server):
    error = failure(server, "install_package('broken-1.0.tar.gz')", files=[upload(sdist("broken", setup="import missing_one"))])
    assert error.startswith("RuntimeError: pip install broken-1.0.tar.gz failed: ")
    assert error.endswith("ModuleNotFoundError: No module named 'missing_one'")


def test_the_limits_hold_for_pip(server):
    """A build is a program like any other: what it does is done in the jail: there is no way out, and no more room than the program has."""
    build = "import os, socket\nopen('/tmp/seen', 'w').write(f'{os.getuid()} {os.listdir(\"/proc\")[:0]}')\n" \
            "try: socket.create_connection(('127.0.0.1', 1))\nexcept OSError as error: open('/tmp/net', 'w').write(error.strerror)"
    verdict = run(server, "install_package('nosy-1.0.tar.gz')\nprint(open('/tmp/seen').read(), open('/tmp/net').read())",
                  files=[upload(sdist("nosy", setup=build))])
    assert verdict["stdout"] == "1000 [] Network is unreachable\n"
    huge = wheel("huge", files={"huge.txt": "x" * (80 << 20)})
    error = failure(server, "install_package('huge-1.0-py3-none-any.whl')", files=[upload(huge)])
    assert "No space left on device" in error


def test_jobs_of_one_session_install_at_once(server):
    files = [upload(wheel(f"side_{n}")) for n in range(2)]
    run(server, "pass", files=files, session_id="at-once")
    verdicts = []
    threads = [threading.Thread(target=lambda n=n: verdicts.append(run(
        server, f"install_package('side_{n}-1.0-py3-none-any.whl')\nimport side_{n}", session_id="at-once")))
        for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(verdicts) == 2
    run(server, "import side_0, side_1", session_id="at-once")


def test_a_signal_ends_the_installation(server):
    code = """if True:
        import signal, os, time
        def ring(*_): raise KeyError('rang')
        signal.signal(signal.SIGALRM, ring)
        try:
            signal.setitimer(signal.ITIMER_REAL, 1)
            install_package('slow-1.0.tar.gz')
        except KeyError: print('ended')
        try: os.waitpid(-1, 0)
        except ChildProcessError: print('and nothing is left')
    """
    files = [upload(sdist("slow", setup="import time; time.sleep(50)"))]
    assert run(server, code, files=files)["stdout"] == "ended\nand nothing is left\n"
