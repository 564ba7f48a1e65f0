#include "parse/multipart.h"

#include "harness/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct multipart m;

/* What a form comes to, as text: {name|filename:content} for each part, "." at its end. */
static int read_form(const char *form, size_t piece, char dst[512])
{
	const uint8_t *p = (const uint8_t *)form;
	size_t n = strlen(form), out = 0;

	while (n > 0) {
		enum multipart_event e;
		ssize_t took = multipart_step(&m, p, n < piece ? n : piece, &e);

		if (took < 0)
			return (int)took;
		if (e == MULTIPART_PART)
			out +=
			    (size_t)snprintf(dst + out, 512 - out, "{%s|%s:", m.name, m.filename);
		else if (e == MULTIPART_DATA)
			out += (size_t)snprintf(dst + out, 512 - out, "%.*s", (int)m.data_n,
						(const char *)m.data);
		else if (e == MULTIPART_PART_END)
			out += (size_t)snprintf(dst + out, 512 - out, "}");
		else if (e == MULTIPART_END)
			out += (size_t)snprintf(dst + out, 512 - out, ".");
		p += took;
		n -= (size_t)took;
	}
	dst[out] = '\0';
	return 0;
}

TEST(forms_in_pieces_of_any_size)
{
	static const char form[] =
	    "preamble\r\n--X\r\nContent-Disposition: form-data; name=\"file\"; "
	    "filename=\"a/b\\\"c\"\r\n"
	    "Content-Type: text/plain\r\n\r\none\r\n--\r\n-X\r\r\n--X \r\n"
	    "content-disposition:form-data;name=f\r\n\r\n\r\n--X\r\n\r\nbare\r\n--X--\r\n--X\r\n";
	char got[512];

	for (size_t piece = 1; piece < sizeof(form); piece++) {
		CHECK(multipart_init(&m, "multipart/form-data; charset=x; boundary=X") == 0);
		CHECK(read_form(form, piece, got) == 0);
		CHECK(strcmp(got, "{file|a/b\"c:one\r\n--\r\n-X\r}{f|:}{|:bare}.") == 0);
	}
}

TEST(types_without_a_boundary)
{
	static const char *const bad[] = {"multipart/form-data",
					  "multipart/mixed; boundary=a",
					  "multipart/form-data; boundary=",
					  "multipart/form-data; boundary=\"a",
					  "multipart/form-data; boundary=\"a \"",
					  "multipart/form-data; boundary=a\x01"};
	char longer[128] = "multipart/form-data; boundary=";

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK(multipart_init(&m, bad[i]) == -EINVAL);
	memset(longer + 30, 'b', 71);
	CHECK(multipart_init(&m, longer) == -EINVAL);
	longer[100] = '\0';
	CHECK(multipart_init(&m, longer) == 0);
}

TEST(malformed_forms)
{
	static const char *const bad[] = {"--X\r\nno colon\r\n\r\n", "--Xx\r\n",
					  "--X\r\nContent-Disposition: attachment\r\n\r\n"};
	char got[512], large[MULTIPART_HEAD_MAX + 64];

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		CHECK(multipart_init(&m, "multipart/form-data; boundary=X") == 0);
		CHECK(read_form(bad[i], 100, got) == -EBADMSG);
	}
	memset(large, 'a', sizeof(large));
	memcpy(large, "--X\r\n", 5);
	large[sizeof(large) - 1] = '\0';
	CHECK(multipart_init(&m, "multipart/form-data; boundary=X") == 0);
	CHECK(read_form(large, sizeof(large), got) == -E2BIG);
}

TEST_MAIN()
