//! Lines of information that are held back for fewer writes (`--log-text-info-buffer-size`).

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

/// Buffer before standard output. What is in it when the process is killed is lost, as in the reference.
#[derive(Debug, Default)]
pub struct InfoBuffer {
    /// Bytes to hold back at most; 0 for none.
    size: usize,
    held: Mutex<Vec<u8>>,
}

impl InfoBuffer {
    /// A buffer of so many bytes.
    pub fn new(size: usize) -> Self {
        InfoBuffer { size, held: Mutex::default() }
    }

    /// Whether lines are held back at all.
    pub fn holds_back(&self) -> bool {
        self.size > 0
    }

    /// Writes a line, now or later.
    pub fn write(&self, line: &[u8], out: &mut impl Write) -> io::Result<()> {
        if !self.holds_back() {
            return out.write_all(line);
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len() + line.len() > self.size {
            write_held(&mut held, out)?;
        }
        match line.len() > self.size {
            true => out.write_all(line),
            false => {
                held.extend_from_slice(line);
                Ok(())
            }
        }
    }

    /// Writes what is held back.
    pub fn flush(&self, out: &mut impl Write) -> io::Result<()> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        write_held(&mut held, out)
    }
}

fn write_held(held: &mut Vec<u8>, out: &mut impl Write) -> io::Result<()> {
    let written = out.write_all(held);
    held.clear();
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_held_back_in_order() {
        let buffer = InfoBuffer::new(8);
        let mut out = Vec::new();
        buffer.write(b"abc\n", &mut out).unwrap();
        buffer.write(b"def\n", &mut out).unwrap();
        assert_eq!(out, b"");
        buffer.write(b"ghi\n", &mut out).unwrap();
        assert_eq!(out, b"abc\ndef\n");
        buffer.write(b"longer than the buffer\n", &mut out).unwrap();
        assert_eq!(out, b"abc\ndef\nghi\nlonger than the buffer\n");
        buffer.write(b"j\n", &mut out).unwrap();
        buffer.flush(&mut out).unwrap();
        assert!(out.ends_with(b"buffer\nj\n"), "{out:?}");
        let direct = InfoBuffer::default();
        let mut out = Vec::new();
        direct.write(b"a\n", &mut out).unwrap();
        assert_eq!(out, b"a\n");
    }
}
