//! The one table of exported symbols: name, version node, signature, and how the function fails
//! when the installed libibverbs does not have it.
//!
//! It has two readers. The compiler reads it as a macro: forwarders (`forward.rs`), loader slots

//! as text, one line a symbol, and prints the linker's version script, the scripted provider's
//! stubs and the differential test's cases. Keep each symbol on one line, in the form
//!
//! ```text
//! "NODE" fn name(arg: type, ...) -> type, fails HOW;
//! ```
//!
//! `fails HOW` is what a caller sees when the function is absent; errno is EOPNOTSUPP in each case:
//! `null` (NULL), `errno` (EOPNOTSUPP itself), `minus1` (-1), `negated` (-EOPNOTSUPP), `zero` (0),
//! `unknown` (the string "unknown"), `void` (nothing).
//!
//! Signatures follow rdma-core's public headers (44 and 65). Enumerations are integers here, so
//! that a value from a newer kernel passes through. What Debian 12's header has no types for is
//! passed as an opaque pointer.

/// Hands the whole table to the macro `$reader`.
macro_rules! symbols {
    ($reader:ident) => {
        $reader! {
forwarded {
    "IBVERBS_1.0" fn ibv_copy_path_rec_from_kern(dst: *mut c_void, src: *mut c_void) -> (), fails void;
    "IBVERBS_1.0" fn ibv_copy_path_rec_to_kern(dst: *mut c_void, src: *mut c_void) -> (), fails void;
    "IBVERBS_1.0" fn ibv_copy_qp_attr_from_kern(dst: *mut c_void, src: *mut c_void) -> (), fails void;
    "IBVERBS_1.0" fn ibv_get_sysfs_path() -> *const c_char, fails null;
    "IBVERBS_1.0" fn ibv_read_sysfs_file(dir: *const c_char, file: *const c_char, buf: *mut c_char, size: usize) -> c_int, fails minus1;
    "IBVERBS_1.0" fn ibv_rate_to_mult(rate: c_uint) -> c_int, fails minus1;
    "IBVERBS_1.0" fn mult_to_ibv_rate(mult: c_int) -> c_uint, fails zero;

    "IBVERBS_1.1" fn ibv_copy_ah_attr_from_kern(dst: *mut c_void, src: *mut c_void) -> (), fails void;
    "IBVERBS_1.1" fn ibv_create_ah_from_wc(pd: *mut ibv_pd, wc: *mut ibv_wc, grh: *mut ibv_grh, port_num: u8) -> *mut ibv_ah, fails null;
    "IBVERBS_1.1" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int, fails errno;
    "IBVERBS_1.1" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int, fails errno;
    "IBVERBS_1.1" fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int, fails errno;
    "IBVERBS_1.1" fn ibv_dofork_range(base: *mut c_void, size: usize) -> c_int, fails minus1;
    "IBVERBS_1.1" fn ibv_dontfork_range(base: *mut c_void, size: usize) -> c_int, fails minus1;
    "IBVERBS_1.1" fn ibv_event_type_str(event: c_uint) -> *const c_char, fails unknown;
    "IBVERBS_1.1" fn ibv_fork_init() -> c_int, fails errno;
    "IBVERBS_1.1" fn ibv_free_device_list(list: *mut *mut ibv_device) -> (), fails void;
    "IBVERBS_1.1" fn ibv_get_device_guid(device: *mut ibv_device) -> u64, fails zero;
    "IBVERBS_1.1" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char, fails null;
    "IBVERBS_1.1" fn ibv_init_ah_from_wc(context: *mut ibv_context, port_num: u8, wc: *mut ibv_wc, grh: *mut ibv_grh, ah_attr: *mut ibv_ah_attr) -> c_int, fails minus1;
    "IBVERBS_1.1" fn ibv_node_type_str(node_type: c_int) -> *const c_char, fails unknown;
    "IBVERBS_1.1" fn ibv_port_state_str(state: c_uint) -> *const c_char, fails unknown;
    "IBVERBS_1.1" fn ibv_rate_to_mbps(rate: c_uint) -> c_int, fails minus1;
    "IBVERBS_1.1" fn ibv_register_driver(name: *const c_char, init_func: *mut c_void) -> (), fails void;
    "IBVERBS_1.1" fn ibv_rereg_mr(mr: *mut ibv_mr, flags: c_int, pd: *mut ibv_pd, addr: *mut c_void, length: usize, access: c_int) -> c_int, fails minus1;
    "IBVERBS_1.1" fn ibv_resolve_eth_l2_from_gid(context: *mut ibv_context, attr: *mut ibv_ah_attr, eth_mac: *mut u8, vid: *mut u16) -> c_int, fails negated;
    "IBVERBS_1.1" fn ibv_wc_status_str(status: c_uint) -> *const c_char, fails unknown;
    "IBVERBS_1.1" fn mbps_to_ibv_rate(mbps: c_int) -> c_uint, fails zero;

    "IBVERBS_1.6" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex, fails null;
    "IBVERBS_1.9" fn ibv_get_device_index(device: *mut ibv_device) -> c_int, fails minus1;
    "IBVERBS_1.10" fn ibv_import_mr(pd: *mut ibv_pd, mr_handle: u32) -> *mut ibv_mr, fails null;
    "IBVERBS_1.10" fn ibv_query_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int, fails errno;
    "IBVERBS_1.10" fn ibv_set_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int, fails errno;
    "IBVERBS_1.10" fn ibv_unimport_mr(mr: *mut ibv_mr) -> (), fails void;
    "IBVERBS_1.10" fn ibv_unimport_pd(pd: *mut ibv_pd) -> (), fails void;
    "IBVERBS_1.12" fn ibv_reg_dmabuf_mr(pd: *mut ibv_pd, offset: u64, length: usize, iova: u64, fd: c_int, access: c_int) -> *mut ibv_mr, fails null;
    "IBVERBS_1.13" fn ibv_is_fork_initialized() -> c_uint, fails zero;
    "IBVERBS_1.13" fn ibv_unimport_dm(dm: *mut ibv_dm) -> (), fails void;
    "IBVERBS_1.14" fn ibv_query_qp_data_in_order(qp: *mut ibv_qp, op: c_uint, flags: u32) -> c_int, fails zero;
    "IBVERBS_1.15" fn ibv_dealloc_dmah(dmah: *mut ibv_dmah) -> c_int, fails errno;
    "IBVERBS_1.15" fn ibv_reg_mr_ex(pd: *mut ibv_pd, attr: *mut c_void) -> *mut ibv_mr, fails null;
    "IBVERBS_1.16" fn ibv_dm_export_dmabuf_fd(dm: *mut ibv_dm) -> c_int, fails minus1;
    "IBVERBS_1.17" fn ibv_alloc_buf(pd: *mut ibv_pd, size: usize, buf: *mut *mut ibv_buf) -> *mut c_void, fails null;
    "IBVERBS_1.17" fn ibv_free_buf(buf: *mut ibv_buf) -> (), fails void;
    "IBVERBS_1.17" fn ibv_reg_buf_mr(pd: *mut ibv_pd, buf: *mut ibv_buf, addr: *mut c_void, length: usize, access: c_int) -> *mut ibv_mr, fails null;
    "IBVERBS_1.18" fn ibv_destroy_comp_cntr(comp_cntr: *mut ibv_comp_cntr) -> c_int, fails errno;
    "IBVERBS_1.18" fn ibv_export_buf_dmabuf_fd(buf: *mut ibv_buf) -> c_int, fails minus1;
    "IBVERBS_1.18" fn ibv_inc_comp_cntr(comp_cntr: *mut ibv_comp_cntr, amount: u64) -> c_int, fails errno;
    "IBVERBS_1.18" fn ibv_inc_err_comp_cntr(comp_cntr: *mut ibv_comp_cntr, amount: u64) -> c_int, fails errno;
    "IBVERBS_1.18" fn ibv_qp_attach_comp_cntr(qp: *mut ibv_qp, comp_cntr: *mut ibv_comp_cntr, attr: *mut c_void) -> c_int, fails errno;
    "IBVERBS_1.18" fn ibv_read_comp_cntr(comp_cntr: *mut ibv_comp_cntr, value: *mut u64) -> c_int, fails errno;
    "IBVERBS_1.18" fn ibv_read_err_comp_cntr(comp_cntr: *mut ibv_comp_cntr, value: *mut u64) -> c_int, fails errno;
    "IBVERBS_1.18" fn ibv_set_comp_cntr(comp_cntr: *mut ibv_comp_cntr, value: u64) -> c_int, fails errno;
    "IBVERBS_1.18" fn ibv_set_err_comp_cntr(comp_cntr: *mut ibv_comp_cntr, value: u64) -> c_int, fails errno;
}
commands {
    "IBVERBS_1.1" fn ibv_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int, fails errno;
    "IBVERBS_1.1" fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah, fails null;
    "IBVERBS_1.1" fn ibv_detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int, fails errno;
    "IBVERBS_1.1" fn ibv_modify_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr, attr_mask: c_int) -> c_int, fails errno;
    "IBVERBS_1.1" fn ibv_query_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, attr_mask: c_int, init_attr: *mut ibv_qp_init_attr) -> c_int, fails errno;
    "IBVERBS_1.1" fn ibv_query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int, fails errno;
    "IBVERBS_1.1" fn ibv_reg_mr(pd: *mut ibv_pd, addr: *mut c_void, length: usize, access: c_int) -> *mut ibv_mr, fails null;
    "IBVERBS_1.7" fn ibv_reg_mr_iova(pd: *mut ibv_pd, addr: *mut c_void, length: usize, iova: u64, access: c_int) -> *mut ibv_mr, fails null;
    "IBVERBS_1.8" fn ibv_reg_mr_iova2(pd: *mut ibv_pd, addr: *mut c_void, length: usize, iova: u64, access: c_uint) -> *mut ibv_mr, fails null;
}
adopting {
    "IBVERBS_1.1" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd, fails null;
    "IBVERBS_1.1" fn ibv_query_device(context: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int, fails errno;
    "IBVERBS_1.1" fn ibv_query_gid(context: *mut ibv_context, port_num: u8, index: c_int, gid: *mut ibv_gid) -> c_int, fails minus1;
    "IBVERBS_1.1" fn ibv_query_pkey(context: *mut ibv_context, port_num: u8, index: c_int, pkey: *mut u16) -> c_int, fails minus1;
    "IBVERBS_1.1" fn ibv_query_port(context: *mut ibv_context, port_num: u8, port_attr: *mut _compat_ibv_port_attr) -> c_int, fails errno;
    "IBVERBS_1.5" fn ibv_get_pkey_index(context: *mut ibv_context, port_num: u8, pkey: u16) -> c_int, fails minus1;
    "IBVERBS_1.10" fn ibv_import_pd(context: *mut ibv_context, pd_handle: u32) -> *mut ibv_pd, fails null;
    "IBVERBS_1.11" fn _ibv_query_gid_ex(context: *mut ibv_context, port_num: u32, gid_index: u32, entry: *mut ibv_gid_entry, flags: u32, entry_size: usize) -> c_int, fails errno;
    "IBVERBS_1.11" fn _ibv_query_gid_table(context: *mut ibv_context, entries: *mut ibv_gid_entry, max_entries: usize, flags: u32, entry_size: usize) -> isize, fails negated;
    "IBVERBS_1.13" fn ibv_import_dm(context: *mut ibv_context, dm_handle: u32) -> *mut ibv_dm, fails null;
    "IBVERBS_1.15" fn ibv_alloc_dmah(context: *mut ibv_context, attr: *mut c_void) -> *mut ibv_dmah, fails null;
    "IBVERBS_1.16" fn ibv_query_port_speed(context: *mut ibv_context, port_num: u32, port_speed: *mut u64) -> c_int, fails errno;
    "IBVERBS_1.18" fn _ibv_query_comp_cntr_caps(context: *mut ibv_context, caps: *mut c_void, caps_size: usize) -> c_int, fails errno;
    "IBVERBS_1.18" fn ibv_create_comp_cntr(context: *mut ibv_context, attr: *mut c_void) -> *mut ibv_comp_cntr, fails null;
}
interposed {
    "IBVERBS_1.0" fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel, fails null;
    "IBVERBS_1.0" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int, fails errno;
    "IBVERBS_1.1" fn ibv_ack_async_event(event: *mut ibv_async_event) -> (), fails void;
    "IBVERBS_1.1" fn ibv_ack_cq_events(cq: *mut ibv_cq, nevents: c_uint) -> (), fails void;
    "IBVERBS_1.1" fn ibv_close_device(context: *mut ibv_context) -> c_int, fails minus1;
    "IBVERBS_1.1" fn ibv_create_cq(context: *mut ibv_context, cqe: c_int, cq_context: *mut c_void, channel: *mut ibv_comp_channel, comp_vector: c_int) -> *mut ibv_cq, fails null;
    "IBVERBS_1.1" fn ibv_create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp, fails null;
    "IBVERBS_1.1" fn ibv_create_srq(pd: *mut ibv_pd, attr: *mut ibv_srq_init_attr) -> *mut ibv_srq, fails null;
    "IBVERBS_1.1" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int, fails errno;
    "IBVERBS_1.1" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int, fails errno;
    "IBVERBS_1.1" fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int, fails errno;
    "IBVERBS_1.1" fn ibv_get_async_event(context: *mut ibv_context, event: *mut ibv_async_event) -> c_int, fails minus1;
    "IBVERBS_1.1" fn ibv_get_cq_event(channel: *mut ibv_comp_channel, cq: *mut *mut ibv_cq, cq_context: *mut *mut c_void) -> c_int, fails minus1;
    "IBVERBS_1.1" fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *mut ibv_device, fails null;
    "IBVERBS_1.1" fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, attr_mask: c_int) -> c_int, fails errno;
    "IBVERBS_1.1" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context, fails null;
    "IBVERBS_1.1" fn ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int, fails errno;
    "IBVERBS_1.10" fn ibv_import_device(cmd_fd: c_int) -> *mut ibv_context, fails null;
}
jumps_ops {
    "IBV_SA_1.0" fn ibv_dealloc_mw(mw: *mut ibv_mw) -> c_int, fails errno, through dealloc_mw;
    "IBV_SA_1.0" fn ibv_poll_cq(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int, fails negated, through poll_cq;
    "IBV_SA_1.0" fn ibv_post_recv(qp: *mut ibv_qp, wr: *mut ibv_recv_wr, bad_wr: *mut *mut ibv_recv_wr) -> c_int, fails errno, through post_recv;
    "IBV_SA_1.0" fn ibv_post_send(qp: *mut ibv_qp, wr: *mut ibv_send_wr, bad_wr: *mut *mut ibv_send_wr) -> c_int, fails errno, through post_send;
    "IBV_SA_1.0" fn ibv_post_srq_recv(srq: *mut ibv_srq, wr: *mut ibv_recv_wr, bad_wr: *mut *mut ibv_recv_wr) -> c_int, fails errno, through post_srq_recv;
    "IBV_SA_1.0" fn ibv_req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int, fails errno, through req_notify_cq;
    "IBV_SA_1.0" fn ibv_alloc_mw(pd: *mut ibv_pd, kind: c_uint) -> *mut ibv_mw, fails null, through alloc_mw;
}
jumps_extended {
    "IBV_SA_1.0" fn ibv_advise_mr(pd: *mut ibv_pd, advice: c_uint, flags: u32, sg_list: *mut ibv_sge, num_sge: u32) -> c_int, fails errno, through advise_mr;
    "IBV_SA_1.0" fn ibv_alloc_dm(context: *mut ibv_context, attr: *mut ibv_alloc_dm_attr) -> *mut ibv_dm, fails null, through alloc_dm;
    "IBV_SA_1.0" fn ibv_alloc_null_mr(pd: *mut ibv_pd) -> *mut ibv_mr, fails null, through alloc_null_mr;
    "IBV_SA_1.0" fn ibv_alloc_parent_domain(context: *mut ibv_context, attr: *mut ibv_parent_domain_init_attr) -> *mut ibv_pd, fails null, through alloc_parent_domain;
    "IBV_SA_1.0" fn ibv_alloc_td(context: *mut ibv_context, attr: *mut ibv_td_init_attr) -> *mut ibv_td, fails null, through alloc_td;
    "IBV_SA_1.0" fn ibv_attach_counters_point_flow(counters: *mut ibv_counters, attr: *mut ibv_counter_attach_attr, flow: *mut ibv_flow) -> c_int, fails errno, through attach_counters_point_flow;
    "IBV_SA_1.0" fn ibv_close_xrcd(xrcd: *mut ibv_xrcd) -> c_int, fails errno, through close_xrcd;
    "IBV_SA_1.0" fn ibv_create_counters(context: *mut ibv_context, attr: *mut ibv_counters_init_attr) -> *mut ibv_counters, fails null, through create_counters;
    "IBV_SA_1.0" fn ibv_create_cq_ex(context: *mut ibv_context, attr: *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex, fails null, through create_cq_ex;
    "IBV_SA_1.0" fn ibv_create_flow(qp: *mut ibv_qp, flow: *mut ibv_flow_attr) -> *mut ibv_flow, fails null, through ibv_create_flow;
    "IBV_SA_1.0" fn ibv_create_flow_action_esp(context: *mut ibv_context, attr: *mut ibv_flow_action_esp_attr) -> *mut ibv_flow_action, fails null, through create_flow_action_esp;
    "IBV_SA_1.0" fn ibv_create_rwq_ind_table(context: *mut ibv_context, attr: *mut ibv_rwq_ind_table_init_attr) -> *mut ibv_rwq_ind_table, fails null, through create_rwq_ind_table;
    "IBV_SA_1.0" fn ibv_dealloc_td(td: *mut ibv_td) -> c_int, fails errno, through dealloc_td;
    "IBV_SA_1.0" fn ibv_destroy_counters(counters: *mut ibv_counters) -> c_int, fails errno, through destroy_counters;
    "IBV_SA_1.0" fn ibv_destroy_flow(flow: *mut ibv_flow) -> c_int, fails errno, through ibv_destroy_flow;
    "IBV_SA_1.0" fn ibv_destroy_flow_action(action: *mut ibv_flow_action) -> c_int, fails errno, through destroy_flow_action;
    "IBV_SA_1.0" fn ibv_destroy_rwq_ind_table(table: *mut ibv_rwq_ind_table) -> c_int, fails errno, through destroy_rwq_ind_table;
    "IBV_SA_1.0" fn ibv_destroy_wq(wq: *mut ibv_wq) -> c_int, fails errno, through destroy_wq;
    "IBV_SA_1.0" fn ibv_free_dm(dm: *mut ibv_dm) -> c_int, fails errno, through free_dm;
    "IBV_SA_1.0" fn ibv_get_srq_num(srq: *mut ibv_srq, srq_num: *mut u32) -> c_int, fails errno, through get_srq_num;
    "IBV_SA_1.0" fn ibv_modify_cq(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int, fails errno, through modify_cq;
    "IBV_SA_1.0" fn ibv_modify_flow_action_esp(action: *mut ibv_flow_action, attr: *mut ibv_flow_action_esp_attr) -> c_int, fails errno, through modify_flow_action_esp;
    "IBV_SA_1.0" fn ibv_modify_qp_rate_limit(qp: *mut ibv_qp, attr: *mut ibv_qp_rate_limit_attr) -> c_int, fails errno, through modify_qp_rate_limit;
    "IBV_SA_1.0" fn ibv_modify_wq(wq: *mut ibv_wq, attr: *mut ibv_wq_attr) -> c_int, fails errno, through modify_wq;
    "IBV_SA_1.0" fn ibv_open_qp(context: *mut ibv_context, attr: *mut ibv_qp_open_attr) -> *mut ibv_qp, fails null, through open_qp;
    "IBV_SA_1.0" fn ibv_open_xrcd(context: *mut ibv_context, attr: *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd, fails null, through open_xrcd;
    "IBV_SA_1.0" fn ibv_query_rt_values_ex(context: *mut ibv_context, values: *mut ibv_values_ex) -> c_int, fails errno, through query_rt_values;
    "IBV_SA_1.0" fn ibv_read_counters(counters: *mut ibv_counters, values: *mut u64, ncounters: u32, flags: u32) -> c_int, fails errno, through read_counters;
    "IBV_SA_1.0" fn ibv_reg_dm_mr(pd: *mut ibv_pd, dm: *mut ibv_dm, dm_offset: u64, length: usize, access: c_uint) -> *mut ibv_mr, fails null, through reg_dm_mr;
}
jumps_object {
    "IBV_SA_1.0" fn ibv_end_poll(cq: *mut ibv_cq_ex) -> (), fails void, through end_poll;
    "IBV_SA_1.0" fn ibv_memcpy_to_dm(dm: *mut ibv_dm, dm_offset: u64, host_addr: *const c_void, length: usize) -> c_int, fails errno, through memcpy_to_dm;
    "IBV_SA_1.0" fn ibv_next_poll(cq: *mut ibv_cq_ex) -> c_int, fails errno, through next_poll;
    "IBV_SA_1.0" fn ibv_post_wq_recv(wq: *mut ibv_wq, wr: *mut ibv_recv_wr, bad_wr: *mut *mut ibv_recv_wr) -> c_int, fails errno, through post_recv;
    "IBV_SA_1.0" fn ibv_start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int, fails errno, through start_poll;
    "IBV_SA_1.0" fn ibv_wc_read_byte_len(cq: *mut ibv_cq_ex) -> u32, fails zero, through read_byte_len;
    "IBV_SA_1.0" fn ibv_wc_read_completion_ts(cq: *mut ibv_cq_ex) -> u64, fails zero, through read_completion_ts;
    "IBV_SA_1.0" fn ibv_wc_read_completion_wallclock_ns(cq: *mut ibv_cq_ex) -> u64, fails zero, through read_completion_wallclock_ns;
    "IBV_SA_1.0" fn ibv_wc_read_cvlan(cq: *mut ibv_cq_ex) -> u16, fails zero, through read_cvlan;
    "IBV_SA_1.0" fn ibv_wc_read_dlid_path_bits(cq: *mut ibv_cq_ex) -> u8, fails zero, through read_dlid_path_bits;
    "IBV_SA_1.0" fn ibv_wc_read_flow_tag(cq: *mut ibv_cq_ex) -> u32, fails zero, through read_flow_tag;
    "IBV_SA_1.0" fn ibv_wc_read_imm_data(cq: *mut ibv_cq_ex) -> u32, fails zero, through read_imm_data;
    "IBV_SA_1.0" fn ibv_wc_read_opcode(cq: *mut ibv_cq_ex) -> c_uint, fails zero, through read_opcode;
    "IBV_SA_1.0" fn ibv_wc_read_qp_num(cq: *mut ibv_cq_ex) -> u32, fails zero, through read_qp_num;
    "IBV_SA_1.0" fn ibv_wc_read_sl(cq: *mut ibv_cq_ex) -> u8, fails zero, through read_sl;
    "IBV_SA_1.0" fn ibv_wc_read_slid(cq: *mut ibv_cq_ex) -> u32, fails zero, through read_slid;
    "IBV_SA_1.0" fn ibv_wc_read_src_qp(cq: *mut ibv_cq_ex) -> u32, fails zero, through read_src_qp;
    "IBV_SA_1.0" fn ibv_wc_read_tm_info(cq: *mut ibv_cq_ex, tm_info: *mut ibv_wc_tm_info) -> (), fails void, through read_tm_info;
    "IBV_SA_1.0" fn ibv_wc_read_vendor_err(cq: *mut ibv_cq_ex) -> u32, fails zero, through read_vendor_err;
    "IBV_SA_1.0" fn ibv_wc_read_wc_flags(cq: *mut ibv_cq_ex) -> c_uint, fails zero, through read_wc_flags;
    "IBV_SA_1.0" fn ibv_wr_abort(qp: *mut ibv_qp_ex) -> (), fails void, through wr_abort;
    "IBV_SA_1.0" fn ibv_wr_atomic_write(qp: *mut ibv_qp_ex, rkey: u32, remote_addr: u64, atomic_wr: *const c_void) -> (), fails void, through wr_atomic_write;
    "IBV_SA_1.0" fn ibv_wr_atomic_cmp_swp(qp: *mut ibv_qp_ex, rkey: u32, remote_addr: u64, compare: u64, swap: u64) -> (), fails void, through wr_atomic_cmp_swp;
    "IBV_SA_1.0" fn ibv_wr_atomic_fetch_add(qp: *mut ibv_qp_ex, rkey: u32, remote_addr: u64, add: u64) -> (), fails void, through wr_atomic_fetch_add;
    "IBV_SA_1.0" fn ibv_wr_bind_mw(qp: *mut ibv_qp_ex, mw: *mut ibv_mw, rkey: u32, bind_info: *const ibv_mw_bind_info) -> (), fails void, through wr_bind_mw;
    "IBV_SA_1.0" fn ibv_wr_complete(qp: *mut ibv_qp_ex) -> c_int, fails errno, through wr_complete;
    "IBV_SA_1.0" fn ibv_wr_local_inv(qp: *mut ibv_qp_ex, invalidate_rkey: u32) -> (), fails void, through wr_local_inv;
    "IBV_SA_1.0" fn ibv_wr_rdma_read(qp: *mut ibv_qp_ex, rkey: u32, remote_addr: u64) -> (), fails void, through wr_rdma_read;
    "IBV_SA_1.0" fn ibv_wr_rdma_write(qp: *mut ibv_qp_ex, rkey: u32, remote_addr: u64) -> (), fails void, through wr_rdma_write;
    "IBV_SA_1.0" fn ibv_wr_rdma_write_imm(qp: *mut ibv_qp_ex, rkey: u32, remote_addr: u64, imm_data: u32) -> (), fails void, through wr_rdma_write_imm;
    "IBV_SA_1.0" fn ibv_wr_send(qp: *mut ibv_qp_ex) -> (), fails void, through wr_send;
    "IBV_SA_1.0" fn ibv_wr_send_imm(qp: *mut ibv_qp_ex, imm_data: u32) -> (), fails void, through wr_send_imm;
    "IBV_SA_1.0" fn ibv_wr_send_inv(qp: *mut ibv_qp_ex, invalidate_rkey: u32) -> (), fails void, through wr_send_inv;
    "IBV_SA_1.0" fn ibv_wr_send_tso(qp: *mut ibv_qp_ex, hdr: *mut c_void, hdr_sz: u16, mss: u16) -> (), fails void, through wr_send_tso;
    "IBV_SA_1.0" fn ibv_wr_set_inline_data(qp: *mut ibv_qp_ex, addr: *mut c_void, length: usize) -> (), fails void, through wr_set_inline_data;
    "IBV_SA_1.0" fn ibv_wr_set_inline_data_list(qp: *mut ibv_qp_ex, num_buf: usize, buf_list: *const ibv_data_buf) -> (), fails void, through wr_set_inline_data_list;
    "IBV_SA_1.0" fn ibv_wr_set_sge(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) -> (), fails void, through wr_set_sge;
    "IBV_SA_1.0" fn ibv_wr_set_sge_list(qp: *mut ibv_qp_ex, num_sge: usize, sg_list: *const ibv_sge) -> (), fails void, through wr_set_sge_list;
    "IBV_SA_1.0" fn ibv_wr_set_ud_addr(qp: *mut ibv_qp_ex, ah: *mut ibv_ah, remote_qpn: u32, remote_qkey: u32) -> (), fails void, through wr_set_ud_addr;
    "IBV_SA_1.0" fn ibv_wr_set_xrc_srqn(qp: *mut ibv_qp_ex, remote_srqn: u32) -> (), fails void, through wr_set_xrc_srqn;
    "IBV_SA_1.0" fn ibv_wr_start(qp: *mut ibv_qp_ex) -> (), fails void, through wr_start;
}
own {
    "IBV_SA_1.0" fn ibv_bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, bind: *mut ibv_mw_bind) -> c_int, fails errno;
    "IBV_SA_1.0" fn ibv_create_qp_ex(context: *mut ibv_context, attr: *mut ibv_qp_init_attr_ex) -> *mut ibv_qp, fails null;
    "IBV_SA_1.0" fn ibv_create_srq_ex(context: *mut ibv_context, attr: *mut ibv_srq_init_attr_ex) -> *mut ibv_srq, fails null;
    "IBV_SA_1.0" fn ibv_create_wq(context: *mut ibv_context, attr: *mut ibv_wq_init_attr) -> *mut ibv_wq, fails null;
    "IBV_SA_1.0" fn ibv_memcpy_from_dm(host_addr: *mut c_void, dm: *mut ibv_dm, dm_offset: u64, length: usize) -> c_int, fails errno;
    "IBV_SA_1.0" fn ibv_post_srq_ops(srq: *mut ibv_srq, op: *mut ibv_ops_wr, bad_op: *mut *mut ibv_ops_wr) -> c_int, fails errno;
    "IBV_SA_1.0" fn ibv_query_device_ex(context: *mut ibv_context, input: *const ibv_query_device_ex_input, attr: *mut ibv_device_attr_ex) -> c_int, fails errno;
    "IBV_SA_1.0" fn ibv_wr_opcode_str(opcode: c_uint) -> *const c_char, fails unknown;
    "IBV_SA_1.0" fn ibv_sa_version() -> *const c_char, fails null;
}
sa {
    "IBV_SA_1.0" fn ibv_sa_ack_event(event: *mut ibv_sa_event) -> c_int, fails minus1;
    "IBV_SA_1.0" fn ibv_sa_create_event_channel() -> *mut ibv_sa_event_channel, fails null;
    "IBV_SA_1.0" fn ibv_sa_destroy_event_channel(channel: *mut ibv_sa_event_channel) -> (), fails void;
    "IBV_SA_1.0" fn ibv_sa_event_str(event: *const ibv_sa_event) -> *const c_char, fails unknown;
    "IBV_SA_1.0" fn ibv_sa_free_id(id: *mut ibv_sa_id) -> c_int, fails minus1;
    "IBV_SA_1.0" fn ibv_sa_get_event(channel: *mut ibv_sa_event_channel, event: *mut *mut ibv_sa_event) -> c_int, fails minus1;
    "IBV_SA_1.0" fn ibv_sa_notice_gid(event: *const ibv_sa_event, gid: *mut ibv_gid) -> c_int, fails minus1;
    "IBV_SA_1.0" fn ibv_sa_notice_issuer(event: *const ibv_sa_event, gid: *mut ibv_gid, lid: *mut u16) -> c_int, fails minus1;
    "IBV_SA_1.0" fn ibv_sa_notice_lid(event: *const ibv_sa_event) -> c_int, fails minus1;
    "IBV_SA_1.0" fn ibv_sa_notice_trap(event: *const ibv_sa_event) -> c_int, fails minus1;
    "IBV_SA_1.0" fn ibv_sa_register_inform_info(channel: *mut ibv_sa_event_channel, device: *mut ibv_context, port_num: u8, trap_number: u16, context: *mut c_void, id: *mut *mut ibv_sa_id) -> c_int, fails minus1;
    "IBV_SA_1.0" fn ibv_sa_register_inform_info_ex(channel: *mut ibv_sa_event_channel, device: *mut ibv_context, port_num: u8, filter: *const ibv_sa_inform_filter, context: *mut c_void, id: *mut *mut ibv_sa_id) -> c_int, fails minus1;
    "IBV_SA_1.0" fn ibv_sa_status_str(status: c_int) -> *const c_char, fails unknown;
    "IBV_SA_1.0" fn ibv_sa_trap_str(trap_number: u16) -> *const c_char, fails unknown;
}
        }
    };
}
pub(crate) use symbols;
