//! The inline functions of `<infiniband/verbs.h>` that do more than jump, as real symbols.

use core::mem::size_of;

use crate::abi::*;
use crate::boundary::set_errno;
use crate::interpose::jump::missing;
use crate::interpose::object;
use crate::interpose::trampoline::{extended, has};
use crate::provider::{Slot, real};

/// The member of an extended context, if it is there.
macro_rules! member {
    ($context:expr, $member:ident) => {
        match extended($context) {
            Some(context) if has!(context, $member) => (*context).$member,
            _ => None,
        }
    };
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, bind: *mut ibv_mw_bind) -> c_int {
    // SAFETY: the caller passes live objects (ibv_bind_mw(3)).
    unsafe {
        let info = &(*bind).bind_info;
        if (*mw).type_ != IBV_MW_TYPE_1 {
            return libc::EINVAL;
        }
        if info.mr.is_null() && (info.addr != 0 || info.length != 0) {
            return libc::EINVAL;
        }
        if !info.mr.is_null() && (*mw).pd != (*info.mr).pd {
            return libc::EPERM;
        }
        match (*(*mw).context).ops.bind_mw {
            Some(function) => function(qp, mw, bind),
            None => missing!(errno),
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_create_qp_ex(
    context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    // SAFETY: the caller passes an open context and valid attributes (ibv_create_qp_ex(3)); the plain attributes
    // are the first members of the extended ones.
    unsafe {
        if (*attr).comp_mask == IBV_QP_INIT_ATTR_PD {
            return object::ibv_create_qp((*attr).pd, attr.cast());
        }
        match member!(context, create_qp_ex) {
            Some(function) => function(context, attr),
            None => missing!(null),
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_create_srq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    // SAFETY: the caller passes an open context and valid attributes (ibv_create_srq_ex(3)); the plain attributes
    // are the first members of the extended ones.
    unsafe {
        let mask = (*attr).comp_mask;
        let has_type = mask & IBV_SRQ_INIT_ATTR_TYPE != 0;
        let plain = mask & !(IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE) == 0
            && mask & IBV_SRQ_INIT_ATTR_PD != 0
            && (!has_type || (*attr).srq_type == IBV_SRQT_BASIC);
        if plain {
            return object::ibv_create_srq((*attr).pd, attr.cast());
        }
        match member!(context, create_srq_ex) {
            Some(function) => function(context, attr),
            None => missing!(null),
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_create_wq(
    context: *mut ibv_context,
    attr: *mut ibv_wq_init_attr,
) -> *mut ibv_wq {
    // SAFETY: the caller passes an open context and valid attributes (ibv_create_wq(3)). What the provider
    // returns is ours to complete: in C this inline function does it.
    unsafe {
        let Some(function) = member!(context, create_wq) else { return missing!(null) };
        let wq = function(context, attr);
        if !wq.is_null() {
            (*wq).wq_context = (*attr).wq_context;
            (*wq).events_completed = 0;
            libc::pthread_mutex_init((&raw mut (*wq).mutex).cast(), core::ptr::null());
            libc::pthread_cond_init((&raw mut (*wq).cond).cast(), core::ptr::null());
        }
        wq
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_memcpy_from_dm(
    host_addr: *mut c_void,
    dm: *mut ibv_dm,
    dm_offset: u64,
    length: usize,
) -> c_int {
    // SAFETY: the caller passes a live DM (ibv_memcpy_from_dm(3)).
    match unsafe { (*dm).memcpy_from_dm } {
        // SAFETY: the caller's promises are those that the provider asks for.
        Some(function) => unsafe { function(host_addr, dm, dm_offset, length) },
        None => missing!(errno),
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_post_srq_ops(
    srq: *mut ibv_srq,
    op: *mut ibv_ops_wr,
    bad_op: *mut *mut ibv_ops_wr,
) -> c_int {
    // SAFETY: the caller passes a live SRQ and a valid place for the bad request (ibv_post_srq_ops(3)).
    unsafe {
        match member!((*srq).context, post_srq_ops) {
            Some(function) => function(srq, op, bad_op),
            None => {
                *bad_op = op;
                missing!(errno)
            }
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_query_device_ex(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
) -> c_int {
    // SAFETY: the caller passes an open context and valid attributes (ibv_query_device_ex(3)).
    unsafe {
        if !input.is_null() && (*input).comp_mask != 0 {
            return libc::EINVAL;
        }
        if let Some(function) = member!(context, query_device_ex) {
            let result = function(context, input, attr, size_of::<ibv_device_attr_ex>());
            if result != libc::EOPNOTSUPP && result != libc::ENOSYS {
                return result;
            }
        }
        attr.write_bytes(0, 1);
        match real::ibv_query_device() {
            Some(function) => function(context, &raw mut (*attr).orig_attr),
            None => missing!(errno),
        }
    }
}

/// Declared in `<infiniband/verbs.h>`, but exported by libibverbs under its private node, whose number changes
/// with every release.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_wr_opcode_str(opcode: c_uint) -> *const c_char {
    static SLOT: Slot = Slot::new(c"ibv_wr_opcode_str", None);
    match SLOT.address() {
        0 => {
            set_errno(libc::EOPNOTSUPP);
            c"unknown".as_ptr()
        }
        // SAFETY: the address was looked up under this name; the signature is that of <infiniband/verbs.h>.
        address => unsafe {
            core::mem::transmute::<usize, unsafe extern "C-unwind" fn(c_uint) -> *const c_char>(address)(
                opcode,
            )
        },
    }
}
