//! The offsets that the shim relies on; `ctests/abi/layout.c` asserts the same numbers of the installed header.

use core::mem::{offset_of, size_of};

use super::*;

macro_rules! layout {
    ($(size $sized:ident $size:literal;)* $(at $type:ident $($member:ident).+ => $offset:literal;)* $(back $field:ident $distance:literal;)*) => {
        $(const _: () = assert!(size_of::<$sized>() == $size);)*
        $(const _: () = assert!(offset_of!($type, $($member).+) == $offset);)*
        // Counted back from the last member, because struct verbs_context grows at its front.
        $(const _: () = assert!(
            offset_of!(verbs_context, context) - offset_of!(verbs_context, $field) == $distance
        );)*
    };
}

layout! {
    size ibv_context 328;
    size ibv_device 664;
    size ibv_wc 48;
    size ibv_async_event 16;
    size ibv_comp_channel 16;
    size ibv_cq 128;
    size ibv_cq_ex 288;
    size ibv_qp 160;
    size ibv_srq 128;
    size ibv_wq 152;
    at ibv_context device => 0;
    at ibv_context ops => 8;
    at ibv_context ops.poll_cq => 96;
    at ibv_context cmd_fd => 264;
    at ibv_context async_fd => 268;
    at ibv_context abi_compat => 320;
    at ibv_wc status => 8;
    at ibv_async_event event_type => 8;
    at ibv_cq context => 0;
    at ibv_cq_ex start_poll => 144;
    at ibv_qp context => 0;
    at ibv_srq context => 0;
    at ibv_wq context => 0;
    at ibv_wq events_completed => 144;
    back sz 8;
    back create_srq_ex 40;
    back create_qp_ex 56;
    back open_qp 64;
    back create_cq_ex 120;
    back create_wq 136;
    back destroy_wq 152;
}
