/* The tables between struct server_config and the Server message. */
#pragma once

#include "config/format/bind.h"

extern const struct bind_table server_table, key_table, callback_table;
