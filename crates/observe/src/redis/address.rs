// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a server is: `redis://[[USER]:PASSWORD@]HOST[:PORT]`, `unix:///PATH[?user=…&pass=…]`.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix};

use super::Error;

/// Redis's port where none is named.
const PORT: u16 = 6379;
/// Addresses of one host that are tried.
const MOST_TRIED: usize = 4;

#[derive(Debug, Clone, PartialEq)]
enum Place {
    Host(String, u16),
    Path(PathBuf),
}

/// A server's address, with the user and password to log in by.
#[derive(Debug, Clone, PartialEq)]
pub struct Address {
    place: Place,
    user: Option<String>,
    password: Option<String>,
}

impl Address {
    /// Reads one; an error says what is wrong.
    pub fn parse(text: &str) -> Result<Address, Error> {
        let wrong = |why: &str| Error::Address(why.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("it has no scheme"))?;
        match scheme {
            "unix" => {
                let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
                let of = |key: &str| {
                    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
                    pairs.find(|(name, _)| *name == key).map(|(_, value)| decoded(value))
                };
                let place = Place::Path(decoded(path)?.into());
                Ok(Address {
                    place,
                    user: of("user").transpose()?,
                    password: of("pass").transpose()?,
                })
            }
            "redis" => {
                let authority = rest.split(['/', '?']).next().unwrap_or_default();
                let (who, host) = authority.rsplit_once('@').unwrap_or(("", authority));
                let (user, password) = who.split_once(':').unwrap_or((who, ""));
                let some = |text: &str| (!text.is_empty()).then(|| decoded(text)).transpose();
                // An address of version 6 is in brackets.
                let end = host.find(']').map_or(0, |at| at + 1);
                let (name, port) = match host[end..].split_once(':') {
                    Some((name, port)) => (&host[..end + name.len()], port.parse().ok()),
                    None => (host, Some(PORT)),
                };
                let port = port.ok_or_else(|| wrong("its port is no number"))?;
                let name = name.trim_start_matches('[').trim_end_matches(']');
                if name.is_empty() {
                    return Err(wrong("it names no host"));
                }
                let place = Place::Host(name.to_owned(), port);
                Ok(Address { place, user: some(user)?, password: some(password)? })
            }
            _ => Err(wrong("its scheme is not redis or unix")),
        }
    }

    /// What to connect to, one after the other.
    pub(super) fn endpoints(&self) -> Result<Vec<(AddressFamily, SocketAddrAny)>, Error> {
        match &self.place {
            Place::Path(path) => {
                let unix = SocketAddrUnix::new(path.as_path()).map_err(std::io::Error::from)?;
                Ok(vec![(AddressFamily::UNIX, unix.into())])
            }
            Place::Host(name, port) => {
                let found = (name.as_str(), *port).to_socket_addrs()?.take(MOST_TRIED);
                let family = |address: &SocketAddr| match address {
                    SocketAddr::V4(_) => AddressFamily::INET,
                    SocketAddr::V6(_) => AddressFamily::INET6,
                };
                Ok(found.map(|address| (family(&address), address.into())).collect())
            }
        }
    }

    /// AUTH's words; none without a password.
    pub(super) fn authentication(&self) -> Vec<&str> {
        let Some(password) = &self.password else { return Vec::new() };
        ["AUTH"].into_iter().chain(self.user.as_deref()).chain([password.as_str()]).collect()
    }
}

/// `%40` is `@`.
fn decoded(text: &str) -> Result<String, Error> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = (*first == b'%').then(|| after.get(..2)).flatten();
        let code = code.and_then(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(bytes).map_err(|_| Error::Address("it is no UTF-8".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_paths_and_passwords() {
        let of = |text: &str| Address::parse(text).unwrap();
        let host = |name: &str, port| Place::Host(name.into(), port);
        assert_eq!(of("redis://localhost").place, host("localhost", 6379));
        assert_eq!(of("redis://[::1]:7000/0").place, host("::1", 7000));
        assert_eq!(of("redis://[::1]").place, host("::1", 6379));
        assert_eq!(of("redis://h:1").authentication(), [""; 0]);
        assert_eq!(of("redis://:p%40ss@h:1").authentication(), ["AUTH", "p@ss"]);
        assert_eq!(of("redis://me:a@b@h:1").authentication(), ["AUTH", "me", "a@b"]);
        let socket = of("unix:///run/redis.sock?user=me&pass=x%25");
        assert_eq!(socket.place, Place::Path("/run/redis.sock".into()));
        assert_eq!(socket.authentication(), ["AUTH", "me", "x%"]);
        for wrong in ["localhost:6379", "http://h", "redis://", "redis://h:x", "redis://:p@"] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }
}
