//! The functions of `<infiniband/verbs.h>` that are inline in C and only jump through a pointer, as real symbols
//! for languages without a C compiler. They do what the C text does and no more: a watched poll counts once, in
//! its trampoline.

use crate::abi::table::symbols;
use crate::abi::*;
use crate::interpose::trampoline::{extended, has};

/// How the C text fails where the pointer is missing: the value, and errno only beside NULL.
macro_rules! missing {
    (null) => {
        $crate::forward::absent!(null)
    };
    (errno) => {
        libc::EOPNOTSUPP
    };
    (negated) => {
        -libc::EOPNOTSUPP
    };
    (zero) => {
        0
    };
    (void) => {
        ()
    };
}
pub(crate) use missing;

/// The context that an object belongs to.
pub(crate) trait InContext {
    /// # Safety
    /// The object is live.
    unsafe fn context(self) -> *mut ibv_context;
}

impl InContext for *mut ibv_context {
    unsafe fn context(self) -> *mut ibv_context {
        self
    }
}

macro_rules! in_context {
    ($($ty:ident),*) => {$(
        impl InContext for *mut $ty {
            #[inline]
            unsafe fn context(self) -> *mut ibv_context {
                // SAFETY: live, as the caller promises.
                unsafe { (*self).context }
            }
        }
    )*};
}

in_context!(
    ibv_counters,
    ibv_cq,
    ibv_dm,
    ibv_flow,
    ibv_flow_action,
    ibv_mw,
    ibv_pd,
    ibv_qp,
    ibv_rwq_ind_table,
    ibv_srq,
    ibv_td,
    ibv_wq,
    ibv_xrcd
);

macro_rules! jumps {
    (
        forwarded { $($f:tt)* }
        commands { $($c:tt)* }
        adopting { $($a:tt)* }
        interposed { $($i:tt)* }
        jumps_ops { $($node:literal fn $name:ident($object:ident: $ty:ty $(, $arg:ident: $arg_ty:ty)*) -> $ret:ty, fails $how:ident, through $member:ident;)* }
        jumps_extended { $($node_x:literal fn $name_x:ident($object_x:ident: $ty_x:ty $(, $arg_x:ident: $arg_ty_x:ty)*) -> $ret_x:ty, fails $how_x:ident, through $member_x:ident;)* }
        jumps_object { $($node_o:literal fn $name_o:ident($object_o:ident: $ty_o:ty $(, $arg_o:ident: $arg_ty_o:ty)*) -> $ret_o:ty, fails $how_o:ident, through $member_o:ident;)* }
        $($rest:tt)*
    ) => {
        $(
            #[cfg_attr(not(test), unsafe(no_mangle))]
            unsafe extern "C-unwind" fn $name($object: $ty $(, $arg: $arg_ty)*) -> $ret {
                // SAFETY: the caller passes a live object, whose context is open.
                match unsafe { (*$object.context()).ops.$member } {
                    // SAFETY: the caller's promises are those that the provider asks for.
                    Some(function) => unsafe { function($object $(, $arg)*) },
                    None => missing!($how),
                }
            }
        )*
        $(
            #[cfg_attr(not(test), unsafe(no_mangle))]
            unsafe extern "C-unwind" fn $name_x($object_x: $ty_x $(, $arg_x: $arg_ty_x)*) -> $ret_x {
                // SAFETY: the caller passes a live object, whose context is open.
                unsafe {
                    if let Some(context) = extended($object_x.context())
                        && has!(context, $member_x)
                        && let Some(function) = (*context).$member_x
                    {
                        function($object_x $(, $arg_x)*)
                    } else {
                        missing!($how_x)
                    }
                }
            }
        )*
        $(
            #[cfg_attr(not(test), unsafe(no_mangle))]
            unsafe extern "C-unwind" fn $name_o($object_o: $ty_o $(, $arg_o: $arg_ty_o)*) -> $ret_o {
                // SAFETY: the caller passes a live object.
                match unsafe { (*$object_o).$member_o } {
                    // SAFETY: the caller's promises are those that the provider asks for.
                    Some(function) => unsafe { function($object_o $(, $arg_o)*) },
                    None => missing!($how_o),
                }
            }
        )*
    };
}

symbols!(jumps);
