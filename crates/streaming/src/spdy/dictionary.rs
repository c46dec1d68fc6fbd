//! Preset dictionary of SPDY/3's header compression (draft 3.1, 2.6.10.1).

/// Adler-32 of the dictionary, by which a compressed stream refers to it.
pub(super) const ID: u32 = 0xe3c6_a7c2;

/// The dictionary: words behind their lengths, then values.
pub(super) fn dictionary() -> Vec<u8> {
    let length = WORDS.iter().map(|word| 4 + word.len()).sum::<usize>() + VALUES.len();
    let mut text = Vec::with_capacity(length);
    for word in WORDS {
        text.extend_from_slice(&(word.len() as u32).to_be_bytes());
        text.extend_from_slice(word.as_bytes());
    }
    text.extend_from_slice(VALUES.as_bytes());
    text
}

#[rustfmt::skip]
const WORDS: &[&str] = &[
    "options", "head", "post", "put", "delete", "trace", "accept", "accept-charset",
    "accept-encoding", "accept-language", "accept-ranges", "age", "allow", "authorization",
    "cache-control", "connection", "content-base", "content-encoding", "content-language",
    "content-length", "content-location", "content-md5", "content-range", "content-type", "date",
    "etag", "expect", "expires", "from", "host", "if-match", "if-modified-since", "if-none-match",
    "if-range", "if-unmodified-since", "last-modified", "location", "max-forwards", "pragma",
    "proxy-authenticate", "proxy-authorization", "range", "referer", "retry-after", "server",
    "te", "trailer", "transfer-encoding", "upgrade", "user-agent", "vary", "via", "warning",
    "www-authenticate", "method", "get", "status", "200 OK", "version", "HTTP/1.1", "url",
    "public", "set-cookie", "keep-alive", "origin",
];

const VALUES: &str = "\
    100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 \
    Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorize\
    d403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable\
    Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, G\
    MTchunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/p\
    lain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf\
    -,*,enq=0.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dictionary_is_the_one_that_peers_have() {
        let text = dictionary();
        assert_eq!(text.len(), 1423);
        let (mut a, mut b) = (1u32, 0u32);
        for byte in text {
            a = (a + u32::from(byte)) % 65521;
            b = (b + a) % 65521;
        }
        assert_eq!(b << 16 | a, ID);
    }
}
