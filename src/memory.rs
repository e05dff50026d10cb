//! The library's own memory: never the program's malloc.
//!
//! Our first call may come from a signal handler that interrupted malloc, in a child that `_Fork` made while
//! another thread held malloc's lock, or when malloc has nothing left to give; and the report at exit may be
//! written after any of these. So Rust's allocations in this library come from a fixed arena, and from the kernel
//! when that is used up. There are few of them and none on the data path: what is freed is only given back if it
//! was the last piece of the arena or came from the kernel.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const ARENA: usize = 256 << 10;

#[repr(C, align(4096))]
struct Arena {
    bytes: UnsafeCell<[u8; ARENA]>,
    used: AtomicUsize,
}

// SAFETY: the bytes are only handed out in disjoint pieces, by the atomic `used`.
unsafe impl Sync for Arena {}

#[cfg_attr(not(test), global_allocator)]
static ARENA_AND_KERNEL: Arena = Arena { bytes: UnsafeCell::new([0; ARENA]), used: AtomicUsize::new(0) };

impl Arena {
    fn start(&self) -> *mut u8 {
        self.bytes.get().cast()
    }

    /// A piece of the arena; `None` when there is no room for it.
    fn carve(&self, layout: Layout) -> Option<*mut u8> {
        let mut place = 0;
        self.used
            .fetch_update(Relaxed, Relaxed, |used| {
                place = used.checked_next_multiple_of(layout.align())?;
                place.checked_add(layout.size()).filter(|end| *end <= ARENA)
            })
            .ok()?;
        // SAFETY: within the arena, as checked above.
        Some(unsafe { self.start().add(place) })
    }

    /// The offset of a piece in the arena; `None` for memory from the kernel.
    fn offset_of(&self, piece: *mut u8) -> Option<usize> {
        piece.addr().checked_sub(self.start().addr()).filter(|offset| *offset < ARENA)
    }
}

// SAFETY: every piece is large enough, aligned (the arena and the kernel's pages to 4096 bytes; nothing here asks
// for more, and what does is refused) and belongs to one owner until it is given back.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > 4096 {
            return null_mut();
        }
        self.carve(layout).unwrap_or_else(|| from_kernel(layout.size()))
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        match self.offset_of(piece) {
            Some(offset) => {
                // The last piece goes back; any other is left behind.
                let _ = self.used.compare_exchange(offset + layout.size(), offset, Relaxed, Relaxed);
            }
            None => {
                // SAFETY: the piece came from `from_kernel` with this size.
                unsafe { libc::munmap(piece.cast(), layout.size()) };
            }
        }
    }
}

fn from_kernel(size: usize) -> *mut u8 {
    // SAFETY: an anonymous private mapping has no preconditions (mmap(2)).
    let memory = unsafe {
        libc::mmap(
            null_mut(),
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if memory == libc::MAP_FAILED { null_mut() } else { memory.cast() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    #[test]
    fn pieces_are_apart_aligned_and_the_last_goes_back() {
        let arena = Box::new(Arena { bytes: UnsafeCell::new([0; ARENA]), used: AtomicUsize::new(0) });
        // SAFETY: pieces are used within their size and given back once, with their layout.
        unsafe {
            let a = arena.alloc(layout(3, 1));
            let b = arena.alloc(layout(64, 64));
            assert_eq!(b.addr() % 64, 0);
            assert!(b.addr() >= a.addr() + 3);
            a.write_bytes(1, 3);
            b.write_bytes(2, 64);
            assert_eq!(*a, 1);
            let used = arena.used.load(Relaxed);
            let c = arena.alloc(layout(100, 8));
            arena.dealloc(c, layout(100, 8));
            assert_eq!(arena.used.load(Relaxed), used);
            arena.dealloc(a, layout(3, 1));
            assert_eq!(arena.used.load(Relaxed), used);
        }
    }

    #[test]
    fn what_does_not_fit_comes_from_the_kernel_and_goes_back_there() {
        let arena = Box::new(Arena { bytes: UnsafeCell::new([0; ARENA]), used: AtomicUsize::new(0) });
        // SAFETY: as above.
        unsafe {
            let large = arena.alloc(layout(ARENA + 1, 16));
            assert_eq!(arena.offset_of(large), None);
            large.add(ARENA).write(7);
            arena.dealloc(large, layout(ARENA + 1, 16));
            assert!(arena.alloc(layout(1, 8192)).is_null());
        }
        assert_eq!(arena.used.load(Relaxed), 0);
    }
}
