/* The report of `immure run --report`: a verdict as one JSON object. */
#pragma once

struct buf;
struct job_result;

/* Appends the object and a newline. Names and units are those of a reply to POST /execute. */
void report_write(const struct job_result *result, struct buf *ret);
