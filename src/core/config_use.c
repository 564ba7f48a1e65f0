/* What is done with a configuration that was read (core/config.c): looked up in, given back. */
#include "core/config.h"

#include <stdlib.h>
#include <string.h>

void config_done(struct config *c)
{
	for (uint32_t i = 0; i < c->templates_n; i++) {
		struct config_template *t = &c->templates[i];

		free(t->name);
		free(t->profile);
		free(t->image);
		strv_done(&t->alias);
	}
	for (uint32_t i = 0; i < c->tenants_n; i++)
		free(c->tenants[i].name);
	free(c->tenants);
	free(c->templates);
	free(c->version);
	free(c->listen);
	free(c->tls_cert);
	free(c->tls_key);
	free(c->domain);
	free(c->state);
	free(c->spawn);
	free(c->user);
	*c = (struct config){.version = NULL};
}

const struct config_template *config_template(const struct config *c, const char *name)
{
	for (uint32_t i = 0; i < c->templates_n; i++) {
		const struct config_template *t = &c->templates[i];

		if (strcmp(t->name, name) == 0)
			return t;
		for (uint32_t k = 0; k < t->alias.n; k++)
			if (strcmp(t->alias.v[k], name) == 0)
				return t;
	}
	return NULL;
}

const struct config_tenant *config_tenant(const struct config *c, const char *name)
{
	const struct config_tenant *all = NULL;

	for (uint32_t i = 0; i < c->tenants_n; i++) {
		if (strcmp(c->tenants[i].name, name) == 0)
			return &c->tenants[i];
		if (strcmp(c->tenants[i].name, "*") == 0)
			all = &c->tenants[i];
	}
	return all;
}
