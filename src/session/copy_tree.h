#pragma once
/*
 * Creating what a pack stream holds beneath one host folder. Paths and targets come from a sandbox.
 * Used by copy_out only; see there for what a destination means.
 */
#include "base/err.h"
#include "wire/pack.h"

struct copy_tree {
	int root;   /* the destination folder */
	int parent; /* the folder of the last entry, and its path */
	char parent_path[PACK_PATH_MAX + 1];
	/* the file being written */
	int file;
	uint64_t pos;
	uint64_t mtime_ns;
	char temp[32];
	char name[256];
};
#define COPY_TREE_INIT ((struct copy_tree){.root = -1, .parent = -1, .file = -1})

/* Make dst (or take the existing folder) as the root. */
int must_check copy_tree_root(struct copy_tree *t, const char *dst, uint16_t mode, struct err *e);
/* Where a single file goes: the root becomes dst and *ret_name `name` when dst is a folder, else the
 * folder above dst and its last component. */
int must_check copy_tree_file_root(struct copy_tree *t, const char *dst, const char *name,
				   char ret_name[256], struct err *e);
int must_check copy_tree_dir(struct copy_tree *t, const char *path, uint16_t mode, struct err *e);
int must_check copy_tree_link(struct copy_tree *t, const char *path, const char *target, struct err *e);
/* A file: begin, any data and holes, end. */
int must_check copy_tree_begin(struct copy_tree *t, const char *path, const struct pack_entry *p,
			       struct err *e);
int must_check copy_tree_data(struct copy_tree *t, const void *p, size_t n, struct err *e);
void copy_tree_hole(struct copy_tree *t, uint64_t n);
int must_check copy_tree_end(struct copy_tree *t, struct err *e);
void copy_tree_done(struct copy_tree *t); /* removes a file that was not ended */
