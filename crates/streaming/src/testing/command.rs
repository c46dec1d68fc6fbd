//! Commands of the stand-in's containers.

use std::io;
use std::process::Stdio;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, empty, sink};
use tokio::process::Command;

use crate::remote_command::Outcome;

/// Streams of a command.
pub(super) struct Streams {
    pub stdin: Box<dyn AsyncRead + Send + Unpin>,
    pub stdout: Box<dyn AsyncWrite + Send + Unpin>,
    pub stderr: Box<dyn AsyncWrite + Send + Unpin>,
    pub resize: Box<dyn AsyncRead + Send + Unpin>,
}

impl Default for Streams {
    fn default() -> Self {
        Streams {
            stdin: Box::new(empty()),
            stdout: Box::new(sink()),
            stderr: Box::new(sink()),
            resize: Box::new(empty()),
        }
    }
}

/// Runs a command; the error is that of a closed stream.
pub(super) async fn run(command: &[String], streams: &mut Streams) -> io::Result<Outcome> {
    let Streams { stdin, stdout, stderr, resize } = streams;
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    match words[..] {
        ["attach"] => {
            stdout.write_all(b"attached\n").await?;
            tokio::io::copy(stdin, stdout).await?;
        }
        ["cat"] => drop(tokio::io::copy(stdin, stdout).await?),
        ["echo", ..] => stdout.write_all((words[1..].join(" ") + "\n").as_bytes()).await?,
        ["complain", text] => stderr.write_all(text.as_bytes()).await?,
        ["exit", code] => match code.parse().unwrap_or(1) {
            0 => {}
            code => return Ok(Outcome::Exit(code)),
        },
        ["yes", count] => write(stdout, count.parse().unwrap_or(0)).await?,
        ["hash"] => {
            let hashed = hash(stdin).await?;
            stdout.write_all(hashed.as_bytes()).await?;
        }
        ["sizes", count] => sizes(resize, stdout, count.parse().unwrap_or(1)).await?,
        ["hang"] => std::future::pending().await,
        // No path is a folder here.
        ["test", "-d", _] => return Ok(Outcome::Exit(1)),
        ["tar", ..] => return tar(&words[1..], stdin, stdout).await,
        _ => {
            let name = words.first().unwrap_or(&"");
            let why = format!("exec: \"{name}\": executable file not found in $PATH");
            return Ok(Outcome::Failure(format!("error executing command in container: {why}")));
        }
    }
    Ok(Outcome::Success)
}

/// Bytes of a pattern that depends on the position.
pub(super) fn pattern(from: u64, bytes: &mut [u8]) {
    for (place, byte) in (from..).zip(bytes) {
        *byte = (place ^ place >> 8 ^ place >> 16) as u8;
    }
}

async fn write(stdout: &mut (impl AsyncWrite + Unpin), count: u64) -> io::Result<()> {
    let mut buffer = vec![0; 32 << 10];
    let mut written = 0;
    while written < count {
        let length = (count - written).min(buffer.len() as u64);
        let part = &mut buffer[..length as usize];
        pattern(written, part);
        stdout.write_all(part).await?;
        written += length;
    }
    Ok(())
}

/// Number of bytes and their FNV-1a hash.
pub(super) async fn hash(stdin: &mut (impl AsyncRead + Unpin)) -> io::Result<String> {
    let (mut hash, mut count) = (0xcbf2_9ce4_8422_2325_u64, 0u64);
    let mut buffer = vec![0; 32 << 10];
    loop {
        let read = stdin.read(&mut buffer).await?;
        if read == 0 {
            return Ok(format!("{count} {hash:016x}"));
        }
        count += read as u64;
        for byte in &buffer[..read] {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// The machine's own `tar`, on the machine's own files: `kubectl cp` needs it in a container.
async fn tar(
    arguments: &[&str],
    stdin: &mut (impl AsyncRead + Unpin),
    stdout: &mut (impl AsyncWrite + Unpin),
) -> io::Result<Outcome> {
    let mut command = Command::new("tar");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.kill_on_drop(true);
    let mut running = command.spawn()?;
    let (to, from) = (running.stdin.take(), running.stdout.take());
    let feed = async {
        // A `tar` that reads nothing has closed its stdin.
        if let Some(mut to) = to {
            let _ = tokio::io::copy(stdin, &mut to).await;
        }
    };
    let said = async {
        match from {
            Some(mut from) => tokio::io::copy(&mut from, stdout).await.map(drop),
            None => Ok(()),
        }
    };
    let ((), said) = tokio::join!(feed, said);
    said?;
    Ok(match running.wait().await?.code() {
        Some(0) => Outcome::Success,
        code => Outcome::Exit(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
    })
}

/// Prints successive sizes of the terminal.
async fn sizes(
    resize: &mut (impl AsyncRead + Unpin),
    stdout: &mut (impl AsyncWrite + Unpin),
    count: usize,
) -> io::Result<()> {
    for _ in 0..count {
        let mut size = Vec::new();
        while size.last() != Some(&b'}') {
            size.push(resize.read_u8().await?);
        }
        size.push(b'\n');
        stdout.write_all(size.trim_ascii_start()).await?;
    }
    Ok(())
}
