#pragma once
/* What a tool said when it failed, as one line for a person. */
#include <stddef.h>

enum { IMAGE_WORDS_MAX = 150 }; /* bytes of the line, with its end: room is left for what it is about */

/*
 * notes[n], a tool's standard error, hostile: its last line that says something, without the dates, levels and
 * marks that tools put before it, of printable ASCII. Digests are shortened. A longer one keeps its end, where the
 * reason is, and is cut between two of its parts. Returns dst.
 */
const char *image_words(const char *notes, size_t n, char dst[IMAGE_WORDS_MAX]);
