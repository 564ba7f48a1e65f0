#include "parse/multipart.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

/*
 * The delimiter is CR LF "--" boundary, and no other CR is in it: when a match breaks off, the
 * bytes matched so far were content, and a new match can only begin at the byte that broke it. A
 * body is read as if CR LF stood before it, so that the first delimiter is like the others.
 */

enum { PREAMBLE, AFTER_DELIM, HEAD, BODY, OVER };

/* ---- parameters: name=token or name="quoted" ---- */

/* The value of a parameter of this name in s, which begins after the first ';' or NUL. */
static bool parameter(const char *s, const char *name, char *dst, size_t size)
{
	size_t len = strlen(name);

	while (*s != '\0') {
		size_t n = 0;
		bool mine;

		s += strspn(s, "; \t");
		mine = strncasecmp(s, name, len) == 0 && s[len] == '=';
		s += strcspn(s, "=;");
		if (*s != '=')
			continue;
		s++;
		if (*s == '"') {
			for (s++; *s != '\0' && *s != '"'; s++) {
				if (*s == '\\' && (s[1] == '"' || s[1] == '\\'))
					s++;
				if (mine && n + 1 < size)
					dst[n++] = *s;
				else if (mine)
					return false;
			}
			if (*s != '"')
				return false;
			s++;
		} else {
			for (; *s != '\0' && *s != ';' && *s != ' ' && *s != '\t'; s++) {
				if (mine && n + 1 < size)
					dst[n++] = *s;
				else if (mine)
					return false;
			}
		}
		if (mine) {
			dst[n] = '\0';
			return true;
		}
	}
	return false;
}

static bool boundary_ok(const char *s)
{
	size_t n = strlen(s);

	return n > 0 && s[n - 1] != ' ' &&
	       strspn(
		   s,
		   "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'()+_,-./:=? ") ==
		   n;
}

int multipart_init(struct multipart *m, const char *content_type)
{
	static const char type[] = "multipart/form-data";
	char boundary[MULTIPART_BOUNDARY_MAX + 1];

	if (strncasecmp(content_type, type, sizeof(type) - 1) != 0 ||
	    !parameter(content_type + sizeof(type) - 1, "boundary", boundary, sizeof(boundary)) ||
	    !boundary_ok(boundary))
		return -EINVAL;
	m->state = PREAMBLE;
	memcpy(m->delim, "\r\n--", 4);
	memcpy(m->delim + 4, boundary, strlen(boundary) + 1);
	m->delim_n = strlen(m->delim);
	m->matched = 2;
	m->head_n = 0;
	m->name[0] = m->filename[0] = '\0';
	return 0;
}

/* ---- heads ---- */

/* One line of a part's head, without its end. */
static bool take_line(struct multipart *m, const char *line)
{
	static const char field[] = "content-disposition:";
	const char *value;

	if (strchr(line, ':') == NULL)
		return false;
	if (strncasecmp(line, field, sizeof(field) - 1) != 0)
		return true;
	value = line + sizeof(field) - 1;
	value += strspn(value, " \t");
	if (strncasecmp(value, "form-data", 9) != 0)
		return false;
	value += 9;
	if (!parameter(value, "name", m->name, sizeof(m->name)))
		m->name[0] = '\0';
	if (!parameter(value, "filename", m->filename, sizeof(m->filename)))
		m->filename[0] = '\0';
	return true;
}

/* The head is whole: m->head, which ends with CR LF CR LF or is CR LF alone. */
static int take_head(struct multipart *m)
{
	char *s = m->head;

	m->name[0] = m->filename[0] = '\0';
	if (memchr(m->head, '\0', m->head_n) != NULL)
		return -EBADMSG;
	m->head[m->head_n - 2] = '\0'; /* the empty line */
	while (*s != '\0') {
		char *end = strstr(s, "\r\n");

		if (end == NULL)
			return -EBADMSG;
		*end = '\0';
		if (!take_line(m, s))
			return -EBADMSG;
		s = end + 2;
	}
	return 0;
}

static bool head_whole(const struct multipart *m)
{
	return m->head_n >= 2 && memcmp(m->head + m->head_n - 2, "\r\n", 2) == 0 &&
	       (m->head_n == 2 ||
		(m->head_n >= 4 && memcmp(m->head + m->head_n - 4, "\r\n", 2) == 0));
}

static ssize_t step_head(struct multipart *m, const uint8_t *p, size_t n, enum multipart_event *ret)
{
	for (size_t i = 0; i < n; i++) {
		if (m->head_n == sizeof(m->head))
			return -E2BIG;
		m->head[m->head_n++] = (char)p[i];
		if (!head_whole(m))
			continue;
		if (take_head(m) < 0)
			return -EBADMSG;
		m->state = BODY;
		m->matched = 0;
		*ret = MULTIPART_PART;
		return (ssize_t)i + 1;
	}
	return (ssize_t)n;
}

/* "--" ends it all, CR LF begins a part; spaces may stand before that. */
static ssize_t step_after(struct multipart *m, const uint8_t *p, size_t n,
			  enum multipart_event *ret)
{
	for (size_t i = 0; i < n; i++) {
		char c = (char)p[i];

		if (m->head_n == 0 && (c == ' ' || c == '\t'))
			continue;
		m->head[m->head_n++] = c;
		if (m->head_n < 2)
			continue;
		if (memcmp(m->head, "--", 2) == 0) {
			m->state = OVER;
			*ret = MULTIPART_END;
		} else if (memcmp(m->head, "\r\n", 2) == 0) {
			m->state = HEAD;
		} else {
			return -EBADMSG;
		}
		m->head_n = 0;
		return (ssize_t)i + 1;
	}
	return (ssize_t)n;
}

/* ---- content ---- */

static ssize_t data(struct multipart *m, const void *p, size_t n, size_t took,
		    enum multipart_event *ret)
{
	m->data = p;
	m->data_n = n;
	if (m->state == BODY && n > 0)
		*ret = MULTIPART_DATA;
	return (ssize_t)took;
}

static ssize_t step_content(struct multipart *m, const uint8_t *p, size_t n,
			    enum multipart_event *ret)
{
	const uint8_t *cr;
	size_t i = 0;

	if (m->matched == 0) {
		cr = memchr(p, '\r', n);
		if (cr != p)
			return data(m, p, cr != NULL ? (size_t)(cr - p) : n,
				    cr != NULL ? (size_t)(cr - p) : n, ret);
	}
	while (i < n && m->matched < m->delim_n && (char)p[i] == m->delim[m->matched]) {
		i++;
		m->matched++;
	}
	if (m->matched == m->delim_n) {
		if (m->state == BODY)
			*ret = MULTIPART_PART_END;
		m->state = AFTER_DELIM;
		m->matched = m->head_n = 0;
		return (ssize_t)i;
	}
	if (i == n)
		return (ssize_t)i;
	cr = (const uint8_t *)m->delim; /* the match broke off */
	n = m->matched;
	m->matched = 0;
	return data(m, cr, n, i, ret);
}

ssize_t multipart_step(struct multipart *m, const uint8_t *p, size_t n, enum multipart_event *ret)
{
	size_t took = 0;

	*ret = MULTIPART_MORE;
	while (took < n && *ret == MULTIPART_MORE) {
		ssize_t r;

		switch (m->state) {
		case AFTER_DELIM:
			r = step_after(m, p + took, n - took, ret);
			break;
		case HEAD:
			r = step_head(m, p + took, n - took, ret);
			break;
		case OVER:
			r = (ssize_t)(n - took);
			break;
		default:
			r = step_content(m, p + took, n - took, ret);
			break;
		}
		if (r < 0)
			return r;
		took += (size_t)r;
	}
	return (ssize_t)took;
}
