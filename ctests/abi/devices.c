/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The smallest program of ours: the library's version, and the devices.
 */
#include <infiniband/ibv_sa.h>
#include <infiniband/verbs.h>
#include <stdio.h>

int main(void)
{
	int number;
	struct ibv_device **list;

	printf("version %s\n", ibv_sa_version());
	list = ibv_get_device_list(&number);
	if (!list) {
		perror("ibv_get_device_list");
		return 1;
	}
	for (int i = 0; i < number; i++)
		printf("%s\n", ibv_get_device_name(list[i]));
	ibv_free_device_list(list);
	return 0;
}
