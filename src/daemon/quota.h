#pragma once
/*
 * What one tenant may have alive at once, by the configuration's `tenants`. Counted anew each time from the table of live
 * sandboxes, which is there again after a restart: there is no account that could be wrong. Sandboxes of the pool are nobody's.
 */
#include "daemon/daemon.h"

/* Whether the tenant may have one more of this template. 0, or ERR_LIMITED with the reason. */
int must_check quota_check(const struct daemon *d, const char *tenant, const struct config_template *t, struct err *e);
