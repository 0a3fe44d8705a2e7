//! Where a request really comes from, when a proxy stands in between.
//!
//! Anybody can write the header that names the client. Only what a trusted proxy wrote counts, and
//! proxies append: so it is read from its end, up to the first address that is none of theirs.

use std::net::IpAddr;
use std::str::FromStr;

use axum::http::HeaderMap;
use axum::http::header::FORWARDED;

/// Which proxies are believed, and where they write the client's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyTrust {
    pub proxies: Vec<Network>,
    pub header: ForwardedBy,
}

/// The header that the proxy sets. The other one is not looked at: proxies pass on what they do not
/// know, so clients could write it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ForwardedBy {
    #[default]
    XForwardedFor,
    /// RFC 7239.
    Forwarded,
}

impl Default for ProxyTrust {
    /// A proxy on the same machine.
    fn default() -> Self {
        let loopback = [Network::new([127, 0, 0, 0].into(), 8), Network::new(LOOPBACK_V6, 128)];
        Self { proxies: loopback.to_vec(), header: ForwardedBy::default() }
    }
}

const LOOPBACK_V6: IpAddr = IpAddr::V6(std::net::Ipv6Addr::LOCALHOST);

/// An address, or all that begin alike: `10.0.0.7`, `172.16.0.0/12`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// How many bits count.
    bits: u8,
}

impl Network {
    const fn new(address: IpAddr, bits: u8) -> Self {
        Self { address, bits }
    }

    fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                let differ = ours.to_bits() ^ theirs.to_bits();
                differ.checked_shr(32 - u32::from(self.bits)).unwrap_or(0) == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                let differ = ours.to_bits() ^ theirs.to_bits();
                differ.checked_shr(128 - u32::from(self.bits)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || format!("{text:?} is no address; write `10.0.0.7` or `172.16.0.0/12`");
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| invalid())?;
        (bits <= most).then(|| Self::new(address, bits)).ok_or_else(invalid)
    }
}

impl ProxyTrust {
    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        self.proxies.iter().any(|network| network.contains(peer))
    }

    /// The last address on the way that is no proxy of ours.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer;
        let written: Vec<&str> = match self.header {
            ForwardedBy::XForwardedFor => headers.get_all("x-forwarded-for"),
            ForwardedBy::Forwarded => headers.get_all(FORWARDED),
        }
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .collect();
        for hop in written.into_iter().rev() {
            if !self.trusts(client) {
                break;
            }
            let address = match self.header {
                ForwardedBy::XForwardedFor => hop,
                ForwardedBy::Forwarded => forwarded_for(hop),
            };
            // What is no address was not written by a proxy of ours.
            let Some(address) = address_of(address) else { break };
            client = address;
        }
        client
    }
}

/// The value of `for` in one element of Forwarded.
fn forwarded_for(element: &str) -> &str {
    let pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let mut named = pairs.filter(|(name, _)| name.trim().eq_ignore_ascii_case("for"));
    named.next().map_or("", |(_, value)| value.trim().trim_matches('"'))
}

/// An address with or without brackets and port.
fn address_of(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let address = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some((address, _)) => address.parse().ok()?,
        None => match text.parse() {
            Ok(address) => address,
            Err(_) => text.rsplit_once(':')?.0.parse().ok()?,
        },
    };
    Some(IpAddr::to_canonical(&address))
}
