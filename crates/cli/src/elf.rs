//! The little of an ELF file that decides whether the loader can put a library into it (elf(5)).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// What a program and a library must have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    /// 32 or 64 bits.
    class: u8,
    number: u16,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Elf {
    pub(crate) machine: Machine,
    /// A shared library, or a program that may lie anywhere.
    pub(crate) is_dynamic: bool,
    /// It names a loader (PT_INTERP); a program that does not is statically linked.
    pub(crate) names_loader: bool,
}

const ET_DYN: u16 = 3;
const PT_INTERP: u32 = 3;

/// Nothing, if it is no ELF file of this machine's byte order or cut short.
pub(crate) fn read(file: &File) -> io::Result<Option<Elf>> {
    let mut header = [0; 64];
    let length = file.read_at(&mut header, 0)?;
    let header = &header[..length];
    if !header.starts_with(b"\x7fELF") || header.get(5) != Some(&1) {
        return Ok(None);
    }
    Ok(parse(file, header))
}

fn parse(file: &File, header: &[u8]) -> Option<Elf> {
    let class = header[4];
    let (table, size, count) = match class {
        1 => (u64::from(word(header, 28)?), half(header, 42)?, half(header, 44)?),
        2 => (long(header, 32)?, half(header, 54)?, half(header, 56)?),
        _ => return None,
    };
    let mut names_loader = false;
    for index in 0..count {
        let mut kind = [0; 4];
        let place = table.checked_add(u64::from(index) * u64::from(size))?;
        file.read_exact_at(&mut kind, place).ok()?;
        names_loader |= u32::from_le_bytes(kind) == PT_INTERP;
    }
    let machine = Machine { class, number: half(header, 18)? };
    Some(Elf { machine, is_dynamic: half(header, 16)? == ET_DYN, names_loader })
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read_bytes(bytes: &[u8]) -> Option<Elf> {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(bytes).expect("written");
        read(&file).expect("readable")
    }

    /// A header with a table of one entry of this kind behind it.
    fn image(class: u8, machine: u16, kind: u32) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56];
        bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1]);
        bytes[16] = 2;
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        let (table, size, count) = if class == 1 { (28, 42, 44) } else { (32, 54, 56) };
        (bytes[table], bytes[size], bytes[count]) = (64, 56, 1);
        bytes[64..68].copy_from_slice(&kind.to_le_bytes());
        bytes
    }

    #[test]
    fn this_test_is_a_program_with_a_loader() {
        let elf = read(&File::open("/proc/self/exe").expect("it is there")).expect("readable");
        assert!(elf.expect("an ELF file").names_loader);
    }

    #[test]
    fn both_classes() {
        for class in [1, 2] {
            let machine = Machine { class, number: 40 };
            let elf = |names_loader| Some(Elf { machine, is_dynamic: false, names_loader });
            assert_eq!(read_bytes(&image(class, 40, 3)), elf(true));
            assert_eq!(read_bytes(&image(class, 40, 1)), elf(false));
        }
    }

    #[test]
    fn what_is_not_whole_is_nothing() {
        let whole = image(2, 62, 3);
        for length in 0..64 + 4 {
            assert_eq!(read_bytes(&whole[..length]), None, "{length} bytes");
        }
        let mut far = whole.clone();
        far[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(read_bytes(&far), None);
        assert_eq!(read_bytes(b"#!/bin/sh\n"), None);
    }
}
