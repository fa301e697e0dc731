/* How long the kernel lets a process run before another's turn comes. */
#pragma once

/* Gives the calling thread short turns that come soon, for whoever has little to do at a time and others wait
 * for it. It gets no more of a processor than others do, and its children have turns like everybody's. Best
 * effort: Linux before 6.12 has turns of one length. */
void slice_shorten(void);
