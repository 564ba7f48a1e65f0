#include "parse/subid.h"
#include "spawn/plan_rules.h"
#include "spawn/record.h"
#include "spawn/runner_priv.h"
#include "sys/ids.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What is worked out of a spec before anything of it exists. */

int runner_subids(const struct spec *s, uint32_t *ret_uid, uint32_t *ret_gid, struct err *e)
{
	const char *dflt = s->image_user != NULL ? s->image_user : strcmp(s->image, "host") == 0 ? "user" : "root";
	const char *dflt_id = s->image_user != NULL ? s->image_user : strcmp(s->image, "host") == 0 ? "1000" : "0";
	bool other = s->user != NULL && strcmp(s->user, dflt) != 0 && strcmp(s->user, dflt_id) != 0;
	struct passwd *pw = NULL;
	FILE *f;
	int r;

	*ret_uid = *ret_gid = 0;
	if (ids_host_root() || (!other && s->sudo == SUDO_NO))
		return 0;
	/* a static program has no name service: the local file is what subuid(5) goes by anyway */
	f = fopen("/etc/passwd", "re");
	while (f != NULL && (pw = fgetpwent(f)) != NULL)
		if (pw->pw_uid == geteuid())
			break;
	r = subid_find("/etc/subuid", pw != NULL ? pw->pw_name : NULL, geteuid(),
		       RECORD_ID_COUNT - 1, ret_uid);
	if (r == 0)
		r = subid_find("/etc/subgid", pw != NULL ? pw->pw_name : NULL, geteuid(),
			       RECORD_ID_COUNT - 1, ret_gid);
	if (f != NULL)
		(void)fclose(f);
	if (r == 0 && access("/usr/bin/newuidmap", X_OK) < 0)
		r = -ENOENT;
	if (r < 0 && !other) {
		*ret_uid = *ret_gid = 0; /* sudo says inside that there is one id */
		return 0;
	}
	if (r < 0)
		return err_set(
		    e, ERR_UNSUPPORTED, ENOTSUP,
		    "--user %s: as an ordinary user only '%s' exists inside, unless newuidmap "
		    "(package uidmap) and 65536 ids for you in /etc/subuid and /etc/subgid are "
		    "there",
		    s->user, dflt);
	return 0;
}

int runner_plan_net(const struct spec *spec, const struct judge *j, struct net_plan **ret, struct err *e)
{
	const char *way = getenv("BRIG_NET_WAY");
	int rc = plan_judged(j, PLAN_HTTP | (spec->egress_local ? PLAN_LOCAL : 0), ret, e);

	/* a host whose kernel has no tproxy, played by the suite: equal walls, see src/net/net.h */
	if (rc == 0 && way != NULL && strcmp(way, "redirect") == 0)
		(*ret)->first = NET_REDIRECT;
	return rc;
}
