/* policy/build.c and tree.c, where an image is the root: who may have which, what is put on it, and which
 * variables come from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "config/server/config.h"
#include "tests/unit/policy/helper.h"

#define MOUNTS                                                                                               \
    "mount { destination: '/usr' bind { source: '/usr' } }\n"                                                \
    "mount { destination: '/bin' symlink { target: 'usr/bin' } }\n"                                          \
    "mount { destination: '/etc/hosts' file { content: 'x' } }\n"                                            \
    "mount { destination: '/dev/null' bind { source: '/dev/null' } allow_devices: true }\n"                  \
    "mount { destination: '/dev/fd' symlink { target: '/proc/self/fd' } }\n"                                 \
    "mount { destination: '/run' tmpfs { } read_only: false }\n"                                             \
    "mount { destination: '/run/deep/file' file { content: 'y' } }\n"                                        \
    "mount { destination: '/proc' proc { } }\n"
#define NAMED                                                                                                \
    "name: 'test'\n" MOUNTS WORKSPACE OPEN "env { name: 'SET' value: 'policy' } env_allow: 'ASKED'\n"

static const struct policy_ceilings ceilings = {.cgroup = true};

static struct jail_plan *build(const struct policy *policy, const struct policy_image *image,
                               const struct job *job, struct err *err)
{
    char path[] = "/bin/true";
    char *argv[] = {path};
    const struct policy_program program = {.argv = argv, .n_argv = 1, .image = image};
    struct jail_plan *plan = NULL;
    if (policy_build_plan(policy, &ceilings, job, &program, &plan, err) == 0 &&
        jail_plan_check(plan, err) < 0) {
        fail_msg("%s: %s", err->step, err->text);
    }
    return plan;
}

/* "kind path" for each step that puts something into the root, '|' for the image's. */
static void put_tree(const struct jail_plan *plan, struct buf *ret)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct jail_step *step = &plan->steps[i];
        const char *path = jail_step_path(plan, step);
        if (step->kind == JAIL_STEP_IMAGE) {
            buf_puts(ret, "| ");
        } else if (path) {
            buf_printf(ret, "%s %s ", jail_step_word(step->kind), path);
        }
    }
}

static void assert_tree(const char *text, const char *want)
{
    CLEANUP(policy_freep) struct policy *policy = compile(text);
    CLEANUP(buf_free) struct buf tree = BUF_INIT;
    struct err err = {0};
    const struct policy_image image = {.name = "one"};
    CLEANUP(plan_freep) struct jail_plan *plan = build(policy, &image, &(struct job){0}, &err);
    assert_non_null(plan);
    put_tree(plan, &tree);
    assert_string_equal(tree.data, want);
}

/* Everything that is made is made before the image lies below; what shows files of the host is left out. */
static void test_what_is_put_on_a_chosen_image(void **state)
{
    (void)state;
    assert_tree(NAMED "images: 'one'",
                "mkdir /immure mkdir /immure/scratch mkdir /dev symlink /dev/fd mkdir /run mkdir /proc "
                "mkdir /workspace | bind /dev/null tmpfs /run proc /proc scratch /immure/scratch "
                "submount /workspace ");
}

static void test_what_is_put_on_the_image_of_a_policy(void **state)
{
    (void)state;
    assert_tree(
        NAMED "image: 'one'",
        "mkdir /immure mkdir /immure/scratch symlink /bin mkdir /etc file /etc/hosts mkdir /dev "
        "symlink /dev/fd mkdir /run mkdir /proc mkdir /workspace | bind /usr bind /dev/null tmpfs /run "
        "mkdir /run/deep file /run/deep/file proc /proc scratch /immure/scratch submount /workspace ");
}

static void test_which_image(void **state)
{
    (void)state;
    static char one[] = "one", two[] = "two", own[] = "";
    static const struct {
        const char *text;
        char *wish;
        const char *want; /* NULL: none */
        enum err_kind kind;
    } rows[] = {
        {NAMED, NULL, NULL, ERR_NONE},
        {NAMED, one, NULL, ERR_DENIED},
        {NAMED, own, NULL, ERR_INVALID},
        {NAMED "images: 'one'", NULL, NULL, ERR_NONE},
        {NAMED "images: 'one'", one, "one", ERR_NONE},
        {NAMED "images: 'one'", two, NULL, ERR_DENIED},
        {NAMED "images: 'one'", own, NULL, ERR_INVALID},
        {NAMED "images: ['one', '*']", two, "two", ERR_NONE},
        {NAMED "image: 'one'", NULL, "one", ERR_NONE},
        {NAMED "image: 'one'", own, "one", ERR_NONE},
        {NAMED "image: 'one'", one, "one", ERR_NONE},
        {NAMED "image: 'one'", two, NULL, ERR_DENIED},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CLEANUP(policy_freep) struct policy *policy = compile(rows[i].text);
        const struct job job = {.image = rows[i].wish};
        const char *name = NULL;
        struct err err = {0};
        int r = policy_image_for(policy, &job, &name, &err);
        assert_int_equal(err.kind, rows[i].kind);
        if (r < 0) {
            assert_string_equal(err.item, "image");
        } else if (rows[i].want) {
            assert_string_equal(name, rows[i].want);
        } else {
            assert_null(name);
        }
    }
}

static void test_no_plan_without_the_image(void **state)
{
    (void)state;
    CLEANUP(policy_freep) struct policy *policy = compile(NAMED "image: 'one'");
    struct err err = {0};
    assert_null(build(policy, NULL, &(struct job){0}, &err));
    assert_string_equal(err.text, "policy 'test' runs in the image 'one', and there is none here");
}

static void test_environment(void **state)
{
    (void)state;
    char variables[4][16] = {"SET=image", "ASKED=image", "SETTING=image", "OWN=a=b"};
    char *env[] = {variables[0], variables[1], variables[2], variables[3]};
    const struct policy_image image = {.name = "one", .env = env, .n_env = 4};
    struct job_env asked = {.name = (char[]){"ASKED"}, .value = (char[]){"job"}};
    const struct job job = {.env = &asked, .n_env = 1};
    struct err err = {0};
    CLEANUP(policy_freep) struct policy *policy = compile(NAMED "images: '*'");
    CLEANUP(plan_freep) struct jail_plan *plan = build(policy, &image, &job, &err);
    assert_non_null(plan);
    const struct jail_step *exec = &plan->steps[plan->n_steps - 1];
    static const char *const want[] = {"SETTING=image", "OWN=a=b", "SET=policy", "ASKED=job"};
    assert_int_equal(exec->exec.envc, ARRAY_SIZE(want));
    jail_ref at = exec->exec.envp;
    for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
        assert_string_equal(jail_plan_string(plan, at), want[i]);
        at += (jail_ref)strlen(want[i]) + 1;
    }
}

static void test_names(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "image: 'A'",           "image: '../x'", "image: '.x'",           "images: ''",
        "images: ['a', 'b c']", "images: '/'",   "image: 'a' images: 'b'"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        struct policy_spec *spec = NULL;
        struct err err = {0};
        buf_printf(&text, "%s%s", NAMED, bad[i]);
        assert_true(policy_spec_decode_text("test", text.data, text.len, &spec, &err) < 0);
        assert_int_equal(err.kind, ERR_CONFIG);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_put_on_a_chosen_image),
        cmocka_unit_test(test_what_is_put_on_the_image_of_a_policy),
        cmocka_unit_test(test_which_image),
        cmocka_unit_test(test_no_plan_without_the_image),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
