//! The structures that C sees. `include/infiniband/ibv_sa.h` has them in C (`cbindgen.toml`); `ctests/abi/sa_layout.c`
//! asserts the same numbers.

#![allow(non_camel_case_types)]

use core::mem::{align_of, offset_of, size_of};

pub(crate) use crate::abi::__be16;
use crate::abi::{c_char, c_int, c_void, ibv_gid};

/// Begins a channel; what follows is ours.
#[repr(C)]
pub struct ibv_sa_event_channel {
    pub fd: c_int,
}

/// Begins an event.
#[repr(C)]
pub struct ibv_sa_event {
    pub context: *mut c_void,
    pub status: c_int,
    pub attr_count: c_int,
    pub attr_size: c_int,
    pub attr_offset: c_int,
    pub attr_id: __be16,
    pub attr: *mut c_void,
}

/// A registration; all of it is ours.
#[repr(C)]
pub struct ibv_sa_id {
    _private: [u8; 0],
}

/// What a registration wants.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_sa_inform_filter {
    pub comp_mask: u32,
    pub flags: u32,
    pub device_name: *const c_char,
    pub gid: ibv_gid,
    pub subject_gid: ibv_gid,
    pub lid_begin: u16,
    pub lid_end: u16,
    pub subject_lid: u16,
    pub type_: u16,
    pub trap_number: __be16,
    pub is_generic: u8,
    pub reserved: u8,
    pub producer: u32,
}

/// `attr_id` of a notice.
pub(crate) const ATTR_NOTICE: __be16 = 0x0002_u16.to_be();
/// `attr_id` of what becomes of a registration.
pub(crate) const ATTR_INFORM_INFO: __be16 = 0x0003_u16.to_be();

macro_rules! layout {
    ($($type:ident $size:literal $align:literal { $($member:ident $offset:literal),* })*) => {$(
        const _: () = assert!(size_of::<$type>() == $size && align_of::<$type>() == $align);
        $(const _: () = assert!(offset_of!($type, $member) == $offset);)*
    )*};
}

layout! {
    ibv_sa_event_channel 4 4 { fd 0 }
    ibv_sa_event 40 8 {
        context 0, status 8, attr_count 12, attr_size 16, attr_offset 20, attr_id 24, attr 32
    }
    ibv_sa_inform_filter 64 8 {
        comp_mask 0, flags 4, device_name 8, gid 16, subject_gid 32, lid_begin 48, lid_end 50, subject_lid 52,
        type_ 54, trap_number 56, is_generic 58, reserved 59, producer 60
    }
}
