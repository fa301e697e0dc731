/* Tells a service manager how far we are: systemd's NOTIFY_SOCKET protocol. */
#pragma once

#include <stdint.h>

/* "READY=1", "STOPPING=1". Does nothing where no service manager listens. */
void notify_service_manager(const char *state);

/* How long the service manager waits for a "WATCHDOG=1" at most (WATCHDOG_USEC, WATCHDOG_PID); 0: it waits
 * for none of this process. The variables are gone then. */
uint64_t notify_watchdog_ns(void);
