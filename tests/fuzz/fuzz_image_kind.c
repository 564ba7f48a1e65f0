/*
 * What a file that is to be imported is taken for: whatever it holds, the answer is one of the
 * kinds, with a program to unpack it exactly when it is packed, or a refusal with a reason. And the
 * words of a tool that failed, which come from the same hostile files: one line of printable ASCII.
 */
#include "base/cleanup.h"
#include "cli/image_words.h"
#include "image/kind.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	_cleanup_close_ int fd = memfd_create("file", MFD_CLOEXEC);
	char path[32], line[IMAGE_WORDS_MAX];
	struct err e = ERR_INIT;
	const char *tool = NULL;
	enum image_kind kind;
	int r;

	if (fd < 0 || write(fd, p, n) != (ssize_t)n)
		abort();
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = image_kind_of(path, &kind, &tool, &e);
	if (r < 0 ? e.kind == ERR_NONE || e.msg[0] == '\0'
		  : kind > IMAGE_DOCKER_ARCHIVE || (kind == IMAGE_PACKED) != (tool[0] != '\0'))
		abort();
	(void)image_words((const char *)p, n, line);
	if (line[0] == '\0' || memchr(line, '\0', sizeof(line)) == NULL)
		abort();
	for (const char *c = line; *c != '\0'; c++)
		if (*c < ' ' || *c > '~')
			abort();
	return 0;
}
