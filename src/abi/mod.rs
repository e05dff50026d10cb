//! What C sees: structures made by bindgen, types that Debian 12's header lacks, and the symbol table.

mod layout;
pub(crate) mod table;

#[allow(missing_docs, non_camel_case_types, non_upper_case_globals, non_snake_case, dead_code, clippy::all)]
mod verbs;

pub(crate) use core::ffi::{c_char, c_int, c_uint, c_void};
pub(crate) use verbs::*;

/// Types of newer libibverbs that are only passed on.
macro_rules! opaque {
    ($($name:ident),*) => {$(
        #[allow(non_camel_case_types)]
        #[repr(C)]
        pub(crate) struct $name {
            _private: [u8; 0],
        }
    )*};
}

opaque!(ibv_buf, ibv_comp_cntr, ibv_dmah);
