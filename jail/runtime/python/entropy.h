/* What draws random numbers and is remembered by the template: no two jobs may draw the same. */
#pragma once

struct _object; /* PyObject */

struct entropy {
    struct _object
        *randoms; /* a list: the generators of the modules, without that of random itself; NULL: none */
    struct _object *seed;        /* _random.Random.seed */
    struct _object *renew_numpy; /* seeds those of numpy; NULL: not imported */
    struct _object *ssl_add;     /* ssl.RAND_add; NULL: not imported */
};

/* In the template, once prepare.py has run and before all is frozen: lets go of what can be drawn anew when
 * it is wanted, and remembers what must be seeded in each job. -1: with an exception. */
int entropy_prepare(struct _object *preparation, struct entropy *ret);

/* In a job's process, before its program. Ends the process where that fails. */
void entropy_renew(const struct entropy *entropy);
