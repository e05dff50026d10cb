//! Cells at addresses that a program is given and gives back.
//!
//! Nothing that comes back is believed: an address is looked up first, and it is only good if it is that of a cell in
//! use. A cell that was freed is not used again before 1,024 others were freed, so that a second ack or free is found
//! out. Memory comes from the kernel in growing slabs and is never given back.

use std::mem::size_of;
use std::sync::atomic::{AtomicUsize, Ordering::*};

/// Cells of the first slab; each slab has twice as many as the one before.
const FIRST: u32 = 64;
/// With 18 slabs an index fits 24 bits.
const SLABS: usize = 18;
/// Cells that are freed before one is used again.
const HELD_BACK: u32 = 1024;

/// No cell.
pub(crate) const NONE: u32 = u32::MAX;

/// Where the slabs begin; 0 for those that do not exist yet. Read without the lock, and in children.
pub(crate) struct Slabs {
    begin: [AtomicUsize; SLABS],
    cell: usize,
}

impl Slabs {
    pub(crate) const fn of<T>() -> Self {
        Self { begin: [const { AtomicUsize::new(0) }; SLABS], cell: size_of::<Cell<T>>() }
    }

    /// The index of the cell that begins at this address, used or not.
    pub(crate) fn index_of(&self, address: usize) -> Option<u32> {
        (0..SLABS).find_map(|slab| {
            let begin = self.begin[slab].load(Acquire);
            let offset = address.checked_sub(begin).filter(|_| begin != 0)?;
            let (number, rest) = (offset / self.cell, offset % self.cell);
            (rest == 0 && number < cells(slab) as usize).then(|| first(slab) + number as u32)
        })
    }
}

fn cells(slab: usize) -> u32 {
    FIRST << slab
}

/// The index of a slab's first cell.
fn first(slab: usize) -> u32 {
    FIRST * ((1 << slab) - 1)
}

fn slab_of(index: u32) -> (usize, u32) {
    let slab = (index / FIRST + 1).ilog2() as usize;
    (slab, index - first(slab))
}

#[repr(C)]
struct Cell<T> {
    value: T,
    used: bool,
    /// The cell that is freed next.
    next: u32,
}

/// What an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A cell in use.
    Used(u32),
    /// A cell that was in use once, or will be.
    Free,
    /// None of ours.
    Foreign,
}

pub(crate) struct Pool<T: 'static> {
    /// Beside the pool, never unmapped.
    slabs: *const Slabs,
    /// Cells that were ever in use.
    ever: u32,
    free_first: u32,
    free_last: u32,
    free: u32,
    _values: std::marker::PhantomData<T>,
}

impl<T> Pool<T> {
    /// # Safety
    /// The slabs are there as long as the pool, and no other pool's.
    pub(crate) unsafe fn new(slabs: *const Slabs) -> Self {
        let _values = std::marker::PhantomData;
        Self { slabs, ever: 0, free_first: NONE, free_last: NONE, free: 0, _values }
    }

    fn slabs(&self) -> &Slabs {
        // SAFETY: as whoever made the pool has promised.
        unsafe { &*self.slabs }
    }

    fn cell(&self, index: u32) -> *mut Cell<T> {
        let (slab, number) = slab_of(index);
        let begin: *mut Cell<T> =
            std::ptr::with_exposed_provenance_mut(self.slabs().begin[slab].load(Relaxed));
        debug_assert!(!begin.is_null());
        // SAFETY: the slab exists (every index that is handed out has a cell) and has this many cells.
        unsafe { begin.add(number as usize) }
    }

    /// What is at this address.
    pub(crate) fn find(&self, address: usize) -> Found {
        match self.slabs().index_of(address) {
            None => Found::Foreign,
            // SAFETY: cells that were ever in use are initialised.
            Some(index) if index < self.ever && unsafe { (*self.cell(index)).used } => Found::Used(index),
            Some(_) => Found::Free,
        }
    }

    /// Whether that cell is in use.
    pub(crate) fn is_used(&self, index: u32) -> bool {
        // SAFETY: as in `find`.
        index < self.ever && unsafe { (*self.cell(index)).used }
    }

    /// The address of a cell, as the program gets it.
    pub(crate) fn address<C>(&self, index: u32) -> *mut C {
        self.cell(index).cast()
    }

    pub(crate) fn get(&self, index: u32) -> &T {
        debug_assert!(self.is_used(index));
        // SAFETY: cells of an index that was handed out are initialised and never go away; the borrow of the pool
        // keeps others from changing them.
        unsafe { &(*self.cell(index)).value }
    }

    /// All values in use.
    pub(crate) fn each(&self, mut work: impl FnMut(&T)) {
        (0..self.ever).filter(|index| self.is_used(*index)).for_each(|index| work(self.get(index)));
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut T {
        debug_assert!(self.is_used(index));
        // SAFETY: as in `get`.
        unsafe { &mut (*self.cell(index)).value }
    }

    /// Makes sure that the next [`Pool::insert`] finds memory.
    pub(crate) fn reserve(&mut self) -> bool {
        if self.free > HELD_BACK {
            return true;
        }
        let (slab, _) = slab_of(self.ever);
        if slab >= SLABS {
            return false;
        }
        if self.slabs().begin[slab].load(Relaxed) == 0 {
            let Some(memory) = from_kernel(cells(slab) as usize * size_of::<Cell<T>>()) else { return false };
            self.slabs().begin[slab].store(memory, Release);
        }
        true
    }

    /// Puts a value into a cell. `None`: no memory.
    pub(crate) fn insert(&mut self, value: T) -> Option<u32> {
        if !self.reserve() {
            return None;
        }
        let index = if self.free > HELD_BACK {
            let index = self.free_first;
            // SAFETY: as in `find`; a free cell is nobody's.
            self.free_first = unsafe { (*self.cell(index)).next };
            self.free -= 1;
            index
        } else {
            self.ever += 1;
            self.ever - 1
        };
        // SAFETY: `reserve` has made the slab; the cell is free, and what was in it needs no drop.
        unsafe { self.cell(index).write(Cell { value, used: true, next: NONE }) };
        Some(index)
    }

    /// Takes a cell out of use. What is in it stays readable until it is used again.
    pub(crate) fn remove(&mut self, index: u32) {
        debug_assert!(self.is_used(index));
        let cell = self.cell(index);
        // SAFETY: as in `find`.
        unsafe {
            (*cell).used = false;
            (*cell).next = NONE;
            if self.free == 0 {
                self.free_first = index;
            } else {
                (*self.cell(self.free_last)).next = index;
            }
        }
        self.free_last = index;
        self.free += 1;
    }
}

fn from_kernel(size: usize) -> Option<usize> {
    // SAFETY: an anonymous private mapping has no preconditions (mmap(2)).
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    (memory != libc::MAP_FAILED).then(|| memory.expose_provenance())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> Pool<[u64; 3]> {
        // SAFETY: leaked, and nobody else's.
        unsafe { Pool::new(Box::leak(Box::new(Slabs::of::<[u64; 3]>()))) }
    }

    #[test]
    fn indices_and_slabs_belong_together() {
        for (index, place) in [(0, (0, 0)), (63, (0, 63)), (64, (1, 0)), (191, (1, 127)), (192, (2, 0))] {
            assert_eq!(slab_of(index), place);
        }
        assert!(first(SLABS) < 1 << 24);
    }

    #[test]
    fn only_cells_in_use_are_found() {
        let mut pool = pool();
        let first = pool.insert([1, 2, 3]).unwrap();
        let address = pool.address::<u8>(first).addr();
        assert_eq!(pool.find(address), Found::Used(first));
        assert_eq!(pool.find(address + 8), Found::Foreign);
        assert_eq!(pool.find(address + size_of::<Cell<[u64; 3]>>()), Found::Free);
        assert_eq!(pool.find(0), Found::Foreign);
        assert_eq!(pool.find(usize::MAX), Found::Foreign);
        pool.remove(first);
        assert_eq!(pool.find(address), Found::Free);
    }

    #[test]
    fn an_address_is_not_used_again_for_1024_others() {
        let mut pool = pool();
        let mut freed = Vec::new();
        for round in 0..5000 {
            let index = pool.insert([round; 3]).unwrap();
            assert_eq!(*pool.get(index), [round; 3]);
            let recent = freed.len().saturating_sub(HELD_BACK as usize);
            assert!(!freed[recent..].contains(&index), "round {round}");
            pool.remove(index);
            freed.push(index);
        }
        assert_eq!(pool.ever, HELD_BACK + 1);
    }
}
