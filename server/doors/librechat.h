/* The interface of LibreChat's code interpreter: POST /exec. Files have ids, which are made of their names,
 * in sessions of the calling key. */
#pragma once

#include "config/message/job.h"
#include "server/doors/door.h"

struct buf;
struct session_file;
struct session_rows;

extern const struct door librechat_door;

/* Of sessions and files: 21 of A-Z a-z 0-9 _ -, which is what their callers look for. */
#define LIBRECHAT_ID_BYTES 22

/* A file that is to be there: its name for the program, and where it lies. */
struct librechat_file {
    char *name;
    char session_id[SESSION_ID_BYTES];
    char id[LIBRECHAT_ID_BYTES];
};

/* State of a job: it has a session of its own, into which the files are put before. */
struct librechat {
    char session_id[LIBRECHAT_ID_BYTES];
    struct librechat_file *files;
    size_t n_files;
};

void librechat_fresh_id(char ret[LIBRECHAT_ID_BYTES]);
/* The file of that path in any session. */
void librechat_file_id(const char *path, char ret[LIBRECHAT_ID_BYTES]);
/* NULL: there is none of that id. */
const struct session_file *librechat_find(const struct session_rows *rows, const char *id);

/* Appends an object of the list of a session's files, for which the caller has written the separator. */
void librechat_write_file(const struct session_file *file, const char *session_id, struct buf *ret);
