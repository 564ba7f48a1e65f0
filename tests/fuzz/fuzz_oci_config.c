/* The configuration of an OCI image: whatever it says, what is taken over is within its bounds. */
#include "image/oci_config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct oci_config c;
	struct err e = ERR_INIT;

	if (oci_config_read((const char *)data, size, NULL, &c, &e) < 0)
		return 0;
	if (c.arch == NULL || c.env.n > OCI_WORDS_MAX || c.cmd.n > 2 * OCI_WORDS_MAX || (c.workdir != NULL && c.workdir[0] != '/'))
		abort();
	for (uint32_t i = 0; i < c.env.n; i++)
		if (strchr(c.env.v[i], '=') == NULL || strlen(c.env.v[i]) > OCI_WORD_MAX)
			abort();
	oci_config_done(&c);
	return 0;
}
