/* Tells a service manager how far we are: systemd's NOTIFY_SOCKET protocol. */
#pragma once

/* "READY=1", "STOPPING=1". Does nothing where no service manager listens. */
void notify_service_manager(const char *state);
