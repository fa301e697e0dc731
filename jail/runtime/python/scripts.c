/* The scripts of a template as they are, put here by the assembler; the paths are relative to the source
 * root. */
#include "jail/runtime/python/scripts.h"

#define SCRIPT(name, path)                                                                                   \
    __asm__(".pushsection .rodata\n" #name ": .incbin \"" path "\"\n.byte 0\n"                               \
            ".popsection\n");                                                                                \
    extern const char name[] __attribute__((visibility("hidden")))

SCRIPT(start_script, "jail/runtime/python/start.py");
SCRIPT(prepare_script, "jail/runtime/python/prepare.py");
SCRIPT(library_script, "jail/runtime/python/rehearsal/library.py");
SCRIPT(job_script, "jail/runtime/python/rehearsal/job.py");
SCRIPT(packages_script, "jail/runtime/python/rehearsal/packages.py");
SCRIPT(least_script, "jail/runtime/python/rehearsal/least.py");

const char *text_of(enum text text)
{
    switch (text) {
    case TEXT_START:
        return start_script;
    case TEXT_PREPARE:
        return prepare_script;
    case TEXT_LIBRARY:
        return library_script;
    case TEXT_JOB:
        return job_script;
    case TEXT_PACKAGES:
        return packages_script;
    default:
        return least_script;
    }
}
