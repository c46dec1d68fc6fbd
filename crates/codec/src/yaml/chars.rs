//! Character access of the scanner.

use super::scanner::Scanner;

impl<'a> Scanner<'a> {
    /// Byte `ahead` of the position; 0 after the end (a stream has no NUL).
    #[inline]
    pub(super) fn byte(&self, ahead: usize) -> u8 {
        self.source.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Length in bytes of the line break `ahead` of the position; 0 for none.
    #[inline]
    pub(super) fn break_len(&self, ahead: usize) -> usize {
        match self.byte(ahead) {
            b'\n' => 1,
            b'\r' => 1 + usize::from(self.byte(ahead + 1) == b'\n'),
            0xc2 if self.byte(ahead + 1) == 0x85 => 2,
            0xe2 if self.byte(ahead + 1) == 0x80 && self.byte(ahead + 2) | 1 == 0xa9 => 3,
            _ => 0,
        }
    }

    #[inline]
    pub(super) fn is_blank(&self) -> bool {
        matches!(self.byte(0), b' ' | b'\t')
    }

    #[inline]
    pub(super) fn is_blank_or_end(&self, ahead: usize) -> bool {
        matches!(self.byte(ahead), b' ' | b'\t' | 0) || self.break_len(ahead) > 0
    }

    #[inline]
    pub(super) fn is_break_or_end(&self) -> bool {
        self.byte(0) == 0 || self.break_len(0) > 0
    }

    /// Whether a document marker is here.
    pub(super) fn at_marker(&self, marker: &[u8]) -> bool {
        self.column == 0
            && self.source.as_bytes()[self.at..].starts_with(marker)
            && self.is_blank_or_end(3)
    }

    /// Skips characters of one line.
    pub(super) fn skip(&mut self, count: u32) {
        for _ in 0..count {
            self.at += match self.byte(0) {
                0..0x80 => 1,
                0x80..0xe0 => 2,
                0xe0..0xf0 => 3,
                _ => 4,
            };
        }
        self.at = self.at.min(self.source.len());
        self.column += count;
    }

    /// Skips to a position on the same line.
    #[inline]
    pub(super) fn skip_to(&mut self, at: usize) {
        let bytes = &self.source.as_bytes()[self.at..at];
        self.column += bytes.iter().filter(|&&byte| byte & 0xc0 != 0x80).count() as u32;
        self.at = at;
    }

    pub(super) fn skip_break(&mut self) {
        let len = self.break_len(0);
        if len > 0 {
            self.at += len;
            self.line += 1;
            self.column = 0;
        }
    }

    pub(super) fn skip_comment(&mut self) {
        if self.byte(0) == b'#' {
            self.skip_line();
        }
    }

    /// Skips to the end of the line.
    pub(super) fn skip_line(&mut self) {
        let bytes = self.source.as_bytes();
        let mut end = self.at;
        while let Some(&byte) = bytes.get(end) {
            let ends = match byte {
                b'\n' | b'\r' => true,
                0xc2 | 0xe2 => self.break_len(end - self.at) > 0,
                _ => false,
            };
            if ends {
                break;
            }
            end += 1;
        }
        self.skip_to(end);
    }

    /// Scans letters, digits, `-` and `_`.
    pub(super) fn scan_word(&mut self) -> &'a str {
        let rest = &self.source[self.at..];
        let len = rest
            .bytes()
            .position(|b| !(b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')))
            .unwrap_or(rest.len());
        self.at += len;
        self.column += len as u32;
        &rest[..len]
    }
}
