/* The daemon's configuration: what is taken over is in its ranges, and each template is found by its names. */
#include "core/config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void template_of(const struct config *c, const struct config_template *t)
{
	if (config_template(c, t->name) != t || strlen(t->name) > CONFIG_NAME_MAX || t->pool > CONFIG_POOL_MAX ||
	    t->image_or_host || (t->profile != NULL && t->profile[0] != '/') || t->alias.n > CONFIG_ALIASES_MAX)
		abort();
	for (uint32_t i = 0; i < t->alias.n; i++)
		if (config_template(c, t->alias.v[i]) != t || t->alias.v[i][0] == '-')
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config c;
	struct err e = ERR_INIT;

	if (config_load("fuzz", (const char *)data, size, &c, &e) < 0) {
		if (e.msg[0] == '\0' || strpbrk(e.msg, "\033\n") != NULL || strncmp(e.msg, "fuzz:", 5) != 0)
			abort();
		return 0;
	}
	if (c.max_sandboxes < 1 || c.max_sandboxes > CONFIG_SANDBOXES_MAX || c.default_timeout_ms > c.max_timeout_ms ||
	    c.default_timeout_ms < 1000 || c.state[0] != '/' || c.spawn[0] != '/' || c.templates_n < 1 ||
	    c.templates_n > CONFIG_TEMPLATES_MAX || (c.tls_cert == NULL) != (c.tls_key == NULL))
		abort();
	for (uint32_t i = 0; i < c.templates_n; i++)
		template_of(&c, &c.templates[i]);
	config_done(&c);
	return 0;
}
