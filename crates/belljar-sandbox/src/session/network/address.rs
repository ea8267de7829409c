//! The addresses that nobody may reach, whatever a list says.
//!
//! By hand, since the standard library's `is_global` is not stable. Ranges are those that IANA's
//! registries of special purposes call not globally reachable, and some that are but lead elsewhere:
//! tunnels and translators, which carry an address of version 4 that would have to be judged in
//! turn, and the metadata services of clouds.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const REFUSED_V4: &[(Ipv4Addr, u32)] = &[
    (Ipv4Addr::UNSPECIFIED, 8),            // this network
    (Ipv4Addr::new(10, 0, 0, 0), 8),       // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),    // carriers' own; metadata of Alibaba Cloud
    (Ipv4Addr::new(127, 0, 0, 0), 8),      // loopback
    (Ipv4Addr::new(168, 63, 129, 16), 32), // services of Azure to its machines
    (Ipv4Addr::new(169, 254, 0, 0), 16),   // link-local; metadata of most clouds
    (Ipv4Addr::new(172, 16, 0, 0), 12),    // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),     // protocol assignments; metadata of Oracle Cloud
    (Ipv4Addr::new(192, 0, 2, 0), 24),     // documentation
    (Ipv4Addr::new(192, 88, 99, 0), 24),   // relays of 6to4
    (Ipv4Addr::new(192, 168, 0, 0), 16),   // private
    (Ipv4Addr::new(198, 18, 0, 0), 15),    // benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24),  // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),   // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4),      // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),      // reserved; broadcast
];

/// Of version 6 only global unicast is allowed. That leaves out loopback, addresses of version 4 in
/// disguise (`::ffff:0:0/96`, `::/96`), translation (`64:ff9b::/96`, `64:ff9b:1::/48`), unique local
/// (`fc00::/7`), link-local, site-local and multicast.
const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// What is refused within global unicast.
const REFUSED_V6: &[(Ipv6Addr, u32)] = &[
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocol assignments; Teredo
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];

/// Whether an address is refused to every session.
pub(super) fn is_refused(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let within = |(start, prefix): &(Ipv4Addr, u32)| {
                (address.to_bits() ^ start.to_bits()).leading_zeros() >= *prefix
            };
            REFUSED_V4.iter().any(within)
        }
        IpAddr::V6(address) => {
            let within = |(start, prefix): &(Ipv6Addr, u32)| {
                (address.to_bits() ^ start.to_bits()).leading_zeros() >= *prefix
            };
            !within(&GLOBAL_V6) || REFUSED_V6.iter().any(within)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(text: &str) -> bool {
        is_refused(text.parse().unwrap())
    }

    /// I2, I3: both ends of each range are refused; the addresses beside it are not, unless they
    /// are in the next range.
    #[test]
    fn ranges_end_where_they_should() {
        // First, last, and what stands before and after it.
        let ranges = [
            ("0.0.0.0", "0.255.255.255", None, Some("1.0.0.0")),
            (
                "10.0.0.0",
                "10.255.255.255",
                Some("9.255.255.255"),
                Some("11.0.0.0"),
            ),
            (
                "100.64.0.0",
                "100.127.255.255",
                Some("100.63.255.255"),
                Some("100.128.0.0"),
            ),
            (
                "127.0.0.0",
                "127.255.255.255",
                Some("126.255.255.255"),
                Some("128.0.0.0"),
            ),
            (
                "168.63.129.16",
                "168.63.129.16",
                Some("168.63.129.15"),
                Some("168.63.129.17"),
            ),
            (
                "169.254.0.0",
                "169.254.255.255",
                Some("169.253.255.255"),
                Some("169.255.0.0"),
            ),
            (
                "172.16.0.0",
                "172.31.255.255",
                Some("172.15.255.255"),
                Some("172.32.0.0"),
            ),
            (
                "192.0.0.0",
                "192.0.0.255",
                Some("191.255.255.255"),
                Some("192.0.1.0"),
            ),
            (
                "192.0.2.0",
                "192.0.2.255",
                Some("192.0.1.255"),
                Some("192.0.3.0"),
            ),
            (
                "192.88.99.0",
                "192.88.99.255",
                Some("192.88.98.255"),
                Some("192.88.100.0"),
            ),
            (
                "192.168.0.0",
                "192.168.255.255",
                Some("192.167.255.255"),
                Some("192.169.0.0"),
            ),
            (
                "198.18.0.0",
                "198.19.255.255",
                Some("198.17.255.255"),
                Some("198.20.0.0"),
            ),
            (
                "198.51.100.0",
                "198.51.100.255",
                Some("198.51.99.255"),
                Some("198.51.101.0"),
            ),
            (
                "203.0.113.0",
                "203.0.113.255",
                Some("203.0.112.255"),
                Some("203.0.114.0"),
            ),
            (
                "224.0.0.0",
                "255.255.255.255",
                Some("223.255.255.255"),
                None,
            ),
            (
                "::",
                "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                None,
                Some("2000::"),
            ),
            (
                "2001::",
                "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
                Some("2000:ffff::"),
                Some("2001:200::"),
            ),
            (
                "2001:db8::",
                "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
                Some("2001:db7:ffff::"),
                Some("2001:db9::"),
            ),
            (
                "2002::",
                "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                Some("2001:ffff::"),
                Some("2003::"),
            ),
            (
                "3fff::",
                "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
                Some("3ffe:ffff::"),
                Some("3fff:1000::"),
            ),
            (
                "4000::",
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                Some("3fff:ffff::"),
                None,
            ),
        ];
        for (first, last, before, after) in ranges {
            assert!(refused(first), "{first}");
            assert!(refused(last), "{last}");
            for beside in [before, after].into_iter().flatten() {
                assert!(!refused(beside), "{beside}");
            }
        }
    }

    /// I2, I3: by name, those that attacks go for.
    #[test]
    fn known_places_are_refused() {
        for address in [
            "127.0.0.1",
            "169.254.169.254",
            "169.254.170.2",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "255.255.255.255",
            "172.17.0.1",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:93.184.215.14",
            "::ffff:0:10.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::a00:1",
            "100::1",
            "2001:0:a00:1::1",
            "2001:2::1",
            "2002:a9fe:a9fe::1",
            "fc00::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(refused(address), "{address}");
        }
        for address in [
            "93.184.215.14",
            "1.1.1.1",
            "8.8.8.8",
            "2606:4700::1111",
            "2a00:1450::1",
        ] {
            assert!(!refused(address), "{address}");
        }
    }

    proptest! {
        /// What the standard library knows to be special is refused.
        #[test]
        fn nothing_special_is_missed(bits: u32, wide: u128) {
            let v4 = Ipv4Addr::from_bits(bits);
            if v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_multicast()
                || v4.is_broadcast() || v4.is_documentation() || v4.is_unspecified() {
                prop_assert!(is_refused(v4.into()));
            }
            prop_assert!(is_refused(v4.to_ipv6_mapped().into()));
            prop_assert!(is_refused(v4.to_ipv6_compatible().into()));
            let v6 = Ipv6Addr::from_bits(wide);
            if v6.is_loopback() || v6.is_multicast() || v6.is_unique_local()
                || v6.is_unicast_link_local() || v6.is_unspecified() {
                prop_assert!(is_refused(v6.into()));
            }
        }
    }
}
