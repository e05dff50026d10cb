//! Spoiling what is valid.

/// Numbers by a seed: splitmix64.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next one.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ word >> 31
    }

    /// Below `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.number() % (limit.max(1) as u64)) as usize
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of them.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Bytes at which decoders decide: ends of ranges, flags, characters with a meaning.
const BYTES: [u8; 13] = [0, 1, 2, 3, 0x7F, 0x80, 0x81, 0xFE, 0xFF, b'/', 0x1B, b' ', 0x40];
/// And numbers: versions, lengths, traps, wildcards.
const NUMBERS: [u32; 16] =
    [0, 1, 2, 9, 64, 65, 128, 256, 259, 0x7F, 0xFFFE, 0xFFFF, 0xFF_FFFF, 0x100_0000, 0x8000_0000, u32::MAX];
/// The longest that something is made by one step.
const EXTENSION: usize = 300;

/// The same with one to three faults: flipped bits, numbers put in, fields exchanged with another sample, cut off,
/// made longer.
pub fn bytes(random: &mut Random, valid: &[u8], others: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = valid.to_vec();
    for _ in 0..=random.below(3) {
        fault(random, &mut bytes, others);
    }
    bytes
}

fn fault(random: &mut Random, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
    let at = random.below(bytes.len());
    let longest = *random.pick(&[1, 2, 4, 8, 16, 64]);
    let length = 1 + random.below(longest);
    match random.below(9) {
        0 | 1 => {
            let bit = 1 << random.below(8);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= bit;
            }
        }
        2 => put(bytes, at, &[*random.pick(&BYTES)]),
        3 => {
            let number = *random.pick(&NUMBERS);
            let at = at & !1;
            match random.below(4) {
                0 => put(bytes, at, &(number as u16).to_be_bytes()),
                1 => put(bytes, at, &(number as u16).to_le_bytes()),
                2 => put(bytes, at, &number.to_be_bytes()),
                _ => put(bytes, at, &number.to_le_bytes()),
            }
        }
        4 => bytes.truncate(at),
        5 => {
            let filler = *random.pick(&BYTES);
            bytes.resize(bytes.len() + 1 + random.below(EXTENSION), filler);
        }
        6 if !others.is_empty() => {
            let other = random.pick(others);
            if let Some(field) = other.get(at..).map(|rest| &rest[..length.min(rest.len())]) {
                put(bytes, at, field);
            }
        }
        7 => put(bytes, at, &vec![0; length]),
        _ => {
            let from = random.below(bytes.len());
            let field = bytes[from..(from + length).min(bytes.len())].to_vec();
            put(bytes, at, &field);
        }
    }
}

/// As far as there is room.
fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    for (to, from) in bytes.iter_mut().skip(at).zip(field) {
        *to = *from;
    }
}

/// A packet with faults. Mostly its header names the length that it has, or nothing behind the header would be read.
pub fn packet(random: &mut Random, valid: &[u8], others: &[Vec<u8>]) -> Vec<u8> {
    let mut packet = bytes(random, valid, others);
    let length = packet.len() as u32;
    if !random.one_in(4)
        && let Some(named) = packet.get_mut(4..8)
    {
        named.copy_from_slice(&length.to_le_bytes());
    }
    packet
}

/// A text with faults: some of its words are others, are missing, or come twice. A word is what stands between blanks
/// and marks; `words` are what else can be put in.
pub fn text(random: &mut Random, valid: &str, words: &[&str]) -> String {
    let mut parts: Vec<&str> = valid.split_inclusive(|c: char| !c.is_alphanumeric() && c != '_').collect();
    for _ in 0..=random.below(4) {
        let at = random.below(parts.len());
        match random.below(4) {
            0 => parts[at] = *random.pick(words),
            1 => parts.insert(at, *random.pick(words)),
            2 if parts.len() > 1 => drop(parts.remove(at)),
            _ => {
                let to = random.below(parts.len());
                let end = (at + 1 + random.below(12)).min(parts.len());
                let piece = parts[at..end].to_vec();
                parts.splice(to..to, piece);
            }
        }
    }
    parts.concat()
}
