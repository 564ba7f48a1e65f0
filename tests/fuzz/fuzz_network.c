/*
 * The network object of a create or an update (the first byte says which): whatever a client writes, the document made of it
 * for brig-spawn is one of YAML with the keys a caller may use, an entry for each word, and nothing the words put beside them.
 */
#include "api/network.h"

#include "core/yaml_tree.h"

#include <stdlib.h>
#include <string.h>

static void entry(const struct yaml_node *n)
{
	const struct yaml_node *ports = yaml_get(n, "ports"), *host = yaml_get(n, "host"), *cidr = yaml_get(n, "cidr");
	const struct yaml_node *what = host != NULL ? host : cidr;

	if (n->kind != YAML_MAP || ports == NULL || (host == NULL) == (cidr == NULL) || what->kind != YAML_WORD ||
	    !what->quoted || n->child == NULL || n->child->next == NULL || n->child->next->next != NULL)
		abort();
	if (ports->kind != YAML_LIST || ports->child == NULL || ports->child->next != NULL ||
	    strcmp(ports->child->text, "1-65535") != 0)
		abort();
}

static void document(const char *text, const char *key, size_t words)
{
	struct yaml_node *root = NULL;
	struct err e = ERR_INIT;
	size_t n = 0;

	if (yaml_tree("asked", "rules", text, strlen(text), &root, &e) < 0)
		abort();
	for (const struct yaml_node *k = root->child; k != NULL; k = k->next)
		if (strcmp(k->key, "version") != 0 && strcmp(k->key, key) != 0)
			abort();
	for (const struct yaml_node *k = yaml_get(root, key)->child; k != NULL; k = k->next, n++)
		entry(k);
	if (n != words)
		abort();
	yaml_tree_free(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	json_t *o = n > 1 ? json_loadb((const char *)p + 1, n - 1, JSON_REJECT_DUPLICATES, NULL) : NULL;
	struct network net = {.text = NULL};
	struct err e = ERR_INIT;
	bool rules;

	if (o != NULL && network_read(o, (p[0] & 2) != 0, (p[0] & 1) != 0, &net, &e) == 0) {
		rules = net.egress == SPAWND_EGRESS_SET;
		if ((net.text != NULL) != (rules || net.egress == SPAWND_EGRESS_NARROW))
			abort();
		if (net.text != NULL)
			document(net.text, rules ? "rules" : "deny",
				 json_array_size(json_object_get(o, rules ? "allowOut" : "denyOut")));
		free(net.text);
	}
	json_decref(o);
	return 0;
}
