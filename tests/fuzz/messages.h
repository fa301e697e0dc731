/* One end of the channel between front and warden, told whatever the input says. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "server/link/channel.h"

/* What must hold, whichever end it is: what is accepted is the sender's to say, is written exactly as its
 * sender would write it, and comes with the descriptors that the table asks for; whatever is refused is
 * refused with a reason; and no descriptor is lost. */
void messages_run(enum channel_side receiver, const uint8_t *data, size_t size);
size_t messages_mutate(uint8_t *data, size_t size, size_t max_size, unsigned seed);
