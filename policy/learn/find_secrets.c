/* Finds what no mount may show: secrets that the program used, and those that lie unread in directories that
 * would be mounted. Runs in the command line, once, before the policy is written; that looks at no file. */
#include <dirent.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "policy/learn/learn.h"
#include "policy/learn/observed.h"
#include "policy/learn/places.h"
#include "policy/mounts.h"

/* A directory with more is taken for one that has secrets: nobody has looked. */
#define ENTRIES_MAX 200000u
#define DEPTH_MAX   32u

struct finder {
    struct observed *observed;
    char homes[2][PATH_MAX]; /* "": not known */
    char **looked;           /* directories */
    size_t n_looked, n_entries;
};

/* Where the caller's own files lie, unless that is where everybody's do ("/", "/usr/sbin"). */
static void find_homes(struct finder *finder)
{
    char buffer[4096], place[PATH_MAX];
    struct passwd entry, *found = NULL;
    getpwuid_r(getuid(), &entry, buffer, sizeof buffer, &found);
    const char *const homes[] = {getenv("HOME"), found ? found->pw_dir : NULL};
    for (size_t i = 0; i < ARRAY_SIZE(homes); i++) {
        CLEANUP(freep) char *real = homes[i] ? realpath(homes[i], NULL) : NULL;
        if (real && !place_is_packaged(real) && place_of(real, true, place) && strcmp(place, real) == 0) {
            snprintf(finder->homes[i], PATH_MAX, "%s", real);
            observed_add_path(finder->observed, real, PATH_SECRET, NULL);
        }
    }
}

/* Whatever its name: the directories around it must not be mounted. */
static void add_secret(const struct finder *finder, char *path)
{
    for (char *c = path; *c; c++) {
        *c = (char)((unsigned char)*c < ' ' || *c == 0x7f ? '?' : *c);
    }
    observed_add_path(finder->observed, path, PATH_SECRET, NULL);
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than DEPTH_MAX
static void look_through(struct finder *finder, const char *directory, unsigned depth)
{
    struct dirent *entry;
    DIR *dir = opendir(directory);
    while (dir && (entry = readdir(dir))) { // NOLINT(concurrency-mt-unsafe)
        char path[PATH_MAX];
        int length = snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 || length >= PATH_MAX) {
            continue;
        }
        if (++finder->n_entries > ENTRIES_MAX || place_secret(path) || entry->d_type == DT_SOCK) {
            add_secret(finder, path);
        } else if ((entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN) && depth < DEPTH_MAX) {
            look_through(finder, path, depth + 1);
        }
        if (finder->n_entries > ENTRIES_MAX) {
            break;
        }
    }
    if (dir) {
        closedir(dir);
    }
}

static void look_once(struct finder *finder, const char *directory)
{
    if (place_is_packaged(directory)) {
        return;
    }
    for (size_t i = 0; i < finder->n_looked; i++) {
        if (path_is_at_or_below(directory, finder->looked[i])) {
            return;
        }
    }
    char **looked = realloc(finder->looked, (finder->n_looked + 1) * sizeof *looked);
    char *own = looked ? strdup(directory) : NULL;
    finder->looked = looked ? looked : finder->looked;
    if (!own) {
        finder->observed->failed = true;
        return;
    }
    finder->looked[finder->n_looked++] = own;
    finder->n_entries = 0;
    look_through(finder, own, 0);
}

/* The directories that may be mounted for the sake of this path. */
static void look_around(struct finder *finder, const char *path, bool directory)
{
    char place[PATH_MAX];
    const char *cwd = finder->observed->cwd;
    if (path_is_below(path, cwd)) {
        size_t length = strlen(cwd) + 1 + strcspn(path + strlen(cwd) + 1, "/");
        if (path[length] || directory) {
            snprintf(place, sizeof place, "%.*s", (int)length, path);
            look_once(finder, place);
        }
        return;
    }
    if (place_of(path, directory, place) && (directory || strcmp(place, path) != 0)) {
        look_once(finder, place);
    }
    char beside[PATH_MAX];
    snprintf(beside, sizeof beside, "%s", path);
    *strrchr(beside, '/') = '\0';
    if (beside[0] && place_of(beside, true, place) && strcmp(place, beside) == 0) {
        look_once(finder, beside);
    }
}

void learn_find_secrets(struct observed *observed)
{
    struct finder finder = {.observed = observed};
    size_t n = observed->n_paths;
    find_homes(&finder);
    for (size_t i = 0; i < n; i++) {
        char path[PATH_MAX];
        unsigned how = observed->paths[i].how;
        snprintf(path, sizeof path, "%s", observed->paths[i].path);
        bool secret = place_secret(path) != NULL;
        for (size_t k = 0; k < ARRAY_SIZE(finder.homes); k++) {
            secret |= finder.homes[k][0] && path_is_at_or_below(path, finder.homes[k]);
        }
        observed->paths[i].how |= secret ? PATH_SECRET : 0;
        if (!secret && !(how & (PATH_LINK | PATH_REFUSED))) {
            look_around(&finder, path, how & PATH_DIRECTORY);
        }
    }
    for (size_t i = 0; i < finder.n_looked; i++) {
        free(finder.looked[i]);
    }
    free(finder.looked);
}
