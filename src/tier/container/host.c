#include "tier/container/setup_priv.h"
#include "sys/landlock.h"
#include "tier/container/start_priv.h"
#include "tier/tier.h"

#include <errno.h>
#include <string.h>

/* The container tier: the wall is the host kernel's own. See start.c and child.c. */

static int validate(const struct spec *spec, struct err *e)
{
	if (spec->root_caps == ROOT_CAPS_FILES && spec->root != ROOT_OVERLAY)
		return err_set(e, ERR_INVALID, EINVAL,
			       "root_caps: files needs a writable root: add --root overlay (root: "
			       "overlay in a profile)");
	if (strcmp(spec->image, "host") != 0 && spec->image[0] != '/')
		return err_set(e, ERR_INVALID, EINVAL, "image '%s': 'host' or an absolute folder",
			       spec->image);
	if ((spec->require & REQ_NEED_LANDLOCK) != 0 && landlock_abi() < 2)
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			       "--require landlock: this kernel has no Landlock (Linux >= 5.19 and "
			       "'landlock' in lsm=)");
	return 0;
}

const struct tier_ops tier_ops_container = {
    .name = "container",
    .summary = "hardened namespaces, cgroups, seccomp and Landlock on the host kernel",
    .probe = container_probe,
    .validate = validate,
    .start = container_start,
};
