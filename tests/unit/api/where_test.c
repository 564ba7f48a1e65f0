#include "api/sign.h"
#include "api/where.h"

#include "harness/test.h"

#include <string.h>

static struct where w;
static enum where_kind find(const char *id, const char *port, const char *host, const char *target)
{
	where_find(id, port, host, target, &w);
	return w.kind;
}

TEST(headers_come_first)
{
	CHECK(find("iabc", "49983", "8080-ixyz.d", "/files?signature=x") == WHERE_BOX);
	CHECK(strcmp(w.id, "iabc") == 0 && w.port == PORT_ENVD);
	CHECK(find("iabc", NULL, NULL, "/") == WHERE_BAD && find(NULL, "1", NULL, "/") == WHERE_BAD);
	CHECK(find("", "1", NULL, "/") == WHERE_BAD && find("iABC", "1", NULL, "/") == WHERE_BAD);
	CHECK(find("i/../x", "1", NULL, "/") == WHERE_BAD);
	CHECK(find("iabc", "0", NULL, "/") == WHERE_BAD && find("iabc", "65536", NULL, "/") == WHERE_BAD);
	CHECK(find("iabc", "+1", NULL, "/") == WHERE_BAD && find("iabc", "", NULL, "/") == WHERE_BAD);
	CHECK(find("iabc", "65535", NULL, "/") == WHERE_BOX && w.port == 65535);
}

TEST(then_the_host_name)
{
	CHECK(find(NULL, NULL, "8080-iabc.localhost:7080", "/") == WHERE_BOX && w.port == 8080 && strcmp(w.id, "iabc") == 0);
	CHECK(find(NULL, NULL, "8080-iabc", "/") == WHERE_CONTROL);
	CHECK(find(NULL, NULL, "127.0.0.1:80", "/") == WHERE_CONTROL && find(NULL, NULL, "a-b.c", "/") == WHERE_CONTROL);
	CHECK(find(NULL, NULL, "80-.c", "/") == WHERE_CONTROL && find(NULL, NULL, "-iabc.c", "/") == WHERE_CONTROL);
	CHECK(find(NULL, NULL, "99999-iabc.c", "/") == WHERE_CONTROL && find(NULL, NULL, "80-i_c.c", "/") == WHERE_CONTROL);
}

TEST(then_a_signature)
{
	CHECK(find(NULL, NULL, "h", "/files?path=a&signature=v1_x") == WHERE_SIGNED);
	CHECK(find(NULL, NULL, "h", "/files?path=a") == WHERE_CONTROL);
	CHECK(find(NULL, NULL, "h", "/filesx?signature=v1_x") == WHERE_CONTROL);
	CHECK(find(NULL, NULL, "h", "/sandboxes") == WHERE_CONTROL);
}

TEST(paths_of_the_host_are_nobodys)
{
	CHECK(where_internal("/init") && where_internal("/fsthaw?x") && where_internal("/in%69t"));
	CHECK(!where_internal("/initx") && !where_internal("/files") && !where_internal("/"));
}

static struct sign_query q;
static char made[SIGN_SIZE];

TEST(signatures_are_those_of_the_sdk)
{
	CHECK(sign_make("dir/a.txt", "read", "user", "brig-test-token", NULL, made) == 0);
	CHECK(strcmp(made, "v1_lyW4zjCfK2fioV24e80HyfWlukOiya69PhXoi5KNQhc") == 0);
	CHECK(sign_make("dir/a.txt", "write", "", "brig-test-token", NULL, made) == 0);
	CHECK(strcmp(made, "v1_IMLlrpjXBeXb4/NbwVlo8Rd2FIIJi6Pt+xx8GxNpWG0") == 0);
	CHECK(sign_make("dir/a.txt", "write", "", "brig-test-token", "1800000000", made) == 0);
	CHECK(strcmp(made, "v1_n0vgG/MGzxmk4onyYV8PC9P+jOVIiB1DyfKhVljeM3c") == 0);
}

/* By both ways, which must agree. */
static bool fits(const char *verb, const char *token)
{
	static struct sign_search s;
	bool found = sign_search_begin(&s, &q, verb) && sign_search_fits(&s, token);

	return found && sign_fits(&q, verb, token);
}

/* Neither way. */
static bool unfit(const char *verb, const char *token)
{
	static struct sign_search s;

	return !(sign_search_begin(&s, &q, verb) && sign_search_fits(&s, token)) && !sign_fits(&q, verb, token);
}

TEST(a_query_fits_its_token_and_verb_only)
{
	sign_read("/files?path=dir%2Fa.txt&signature=v1_n0vgG%2FMGzxmk4onyYV8PC9P%2BjOVIiB1DyfKhVljeM3c&"
		  "signature_expiration=1800000000", &q);
	CHECK(fits("write", "brig-test-token"));
	CHECK(unfit("read", "brig-test-token") && unfit("write", "brig-test-tokem"));
	CHECK(!sign_over(&q, 1799999999) && sign_over(&q, 1800000000));
	strcpy(q.expiration, "1x");
	CHECK(sign_over(&q, 0) && unfit("write", "brig-test-token"));
	sign_read("/files?path=%zz&signature=v1_x", &q);
	CHECK(q.bad != NULL && unfit("read", "brig-test-token"));
	sign_read("/files?path=a", &q);
	CHECK(!q.has_signature && !sign_over(&q, 1));
}

TEST_MAIN()
