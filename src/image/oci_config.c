#include "image/oci_config.h"
/*
 * Strict where a wrong value would change what runs: a field of another type is refused, not skipped. Fields that
 * nobody here uses are left alone, as the specification asks. jansson refuses duplicates, NUL, broken
 * UTF-8 and nesting above 2048.
 */
#include "base/num.h"
#include "base/quote.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

static int wrong(struct err *e, const char *field, const char *why)
{
	return err_set(e, ERR_INVALID, EINVAL, "the image's configuration: %s: %s", field, why);
}

static int read_text(const json_t *o, const char *field, char **ret, struct err *e)
{
	const json_t *v = json_object_get(o, field);

	if (v == NULL || json_is_null(v))
		return 0;
	if (!json_is_string(v))
		return wrong(e, field, "text is needed");
	if (json_string_length(v) > OCI_WORD_MAX)
		return wrong(e, field, "too long");
	if (json_string_length(v) == 0)
		return 0;
	*ret = strdup(json_string_value(v));
	return *ret == NULL ? err_no_memory(e) : 0;
}

static int read_words(const json_t *o, const char *field, bool env, struct strv *ret, struct err *e)
{
	const json_t *a = json_object_get(o, field);

	if (a == NULL || json_is_null(a))
		return 0;
	if (!json_is_array(a) || json_array_size(a) > OCI_WORDS_MAX)
		return wrong(e, field, "a list of at most 1024 words is needed");
	for (size_t i = 0; i < json_array_size(a); i++) {
		const json_t *v = json_array_get(a, i);

		if (!json_is_string(v) || json_string_length(v) > OCI_WORD_MAX)
			return wrong(e, field, "each must be text of at most 32 KiB");
		if (env && (strchr(json_string_value(v), '=') == NULL || json_string_value(v)[0] == '='))
			return wrong(e, field, "each must be NAME=VALUE");
		if (strv_add(ret, json_string_value(v)) < 0)
			return err_no_memory(e);
	}
	return 0;
}

static int read_all(const json_t *root, const char *machine, struct oci_config *c, struct err *e)
{
	const json_t *config = json_object_get(root, "config"), *os = json_object_get(root, "os");
	char q[QUOTE_MAX];
	int r = read_text(root, "architecture", &c->arch, e);

	if (r < 0)
		return r;
	if (c->arch == NULL)
		return wrong(e, "architecture", "is missing");
	if (!json_is_string(os) || strcmp(json_string_value(os), "linux") != 0)
		return wrong(e, "os", "only linux images run here");
	if (machine != NULL && strcmp(c->arch, machine) != 0)
		return err_set(e, ERR_INVALID, ENOEXEC, "the image is for the architecture %s, this machine is %s",
			       quote(c->arch, q), machine);
	if (config == NULL || json_is_null(config))
		return 0;
	if (!json_is_object(config))
		return wrong(e, "config", "an object is needed");
	r = read_text(config, "User", &c->user, e);
	if (r == 0)
		r = read_text(config, "WorkingDir", &c->workdir, e);
	if (r == 0 && c->workdir != NULL && c->workdir[0] != '/')
		r = wrong(e, "WorkingDir", "an absolute path is needed");
	if (r == 0)
		r = read_words(config, "Env", true, &c->env, e);
	if (r == 0)
		r = read_words(config, "Entrypoint", false, &c->cmd, e);
	return r == 0 ? read_words(config, "Cmd", false, &c->cmd, e) : r;
}

int oci_config_read(const char *text, size_t n, const char *machine, struct oci_config *ret, struct err *e)
{
	json_error_t why;
	json_t *root;
	int r;

	*ret = (struct oci_config){.user = NULL};
	if (n > OCI_CONFIG_MAX)
		return wrong(e, "all of it", "larger than 4 MiB");
	root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
	if (root == NULL)
		return wrong(e, "all of it", "no valid JSON");
	r = json_is_object(root) ? read_all(root, machine, ret, e) : wrong(e, "all of it", "an object is needed");
	json_decref(root);
	if (r < 0)
		oci_config_done(ret);
	return r;
}

void oci_config_done(struct oci_config *c)
{
	free(c->user);
	free(c->workdir);
	free(c->arch);
	strv_done(&c->env);
	strv_done(&c->cmd);
	*c = (struct oci_config){.user = NULL};
}

const char *oci_machine(void)
{
	static const char *const names[][2] = {{"x86_64", "amd64"}, {"aarch64", "arm64"}, {"riscv64", "riscv64"}};
	static struct utsname u;

	if (uname(&u) == 0)
		for (size_t i = 0; i < ARRAY_LEN(names); i++)
			if (strcmp(names[i][0], u.machine) == 0)
				return names[i][1];
	return "";
}
