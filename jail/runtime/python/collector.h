/* How CPython's collector stands: what decides when it runs next. */
#pragma once

#define COLLECTOR_GENERATIONS 3

struct collector {
    int counts[COLLECTOR_GENERATIONS];
    long long_lived_total, long_lived_pending;
};

void collector_read(struct collector *ret);

/* Makes it stand so, with no collections behind it. */
void collector_write(const struct collector *collector);
