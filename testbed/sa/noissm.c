/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Preloaded before libumad2sim.so. A client that connects with SIM_SET_ISSM=1 gets the unsolicited MADs of its node,
 * but umad2sim then also marks the port as one with an SM. OpenSM sends such a port SMInfo queries, and umad2sim
 * crashes on a query of a class that nobody registered. With this the mark is left out.
 */
int sim_client_set_sm(void *client, unsigned is_sm);

int sim_client_set_sm(void *client, unsigned is_sm)
{
	(void)client;
	(void)is_sm;
	return 0;
}
