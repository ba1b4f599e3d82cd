//! Tries all network access of WASI: TCP, UDP, binding, and name look-up.

use clawhost_sdk::{Environment, Next, Result, Signals, export_environment};
use wasip2::sockets::network::{ErrorCode, IpAddressFamily, IpSocketAddress, Ipv4SocketAddress, Ipv6SocketAddress};
use wasip2::sockets::{instance_network, ip_name_lookup, tcp_create_socket, udp_create_socket};

struct Guest;

/// The result of a try: the step that failed, and its error.
type Try = std::result::Result<String, String>;

fn at(step: &str) -> impl Fn(ErrorCode) -> String {
    move |error| format!("{step}: {}", error.name())
}

fn everybody(family: IpAddressFamily, port: u16) -> IpSocketAddress {
    match family {
        IpAddressFamily::Ipv4 => IpSocketAddress::Ipv4(Ipv4SocketAddress { port, address: (127, 0, 0, 1) }),
        IpAddressFamily::Ipv6 => IpSocketAddress::Ipv6(Ipv6SocketAddress {
            port,
            flow_info: 0,
            address: (0, 0, 0, 0, 0, 0, 0, 1),
            scope_id: 0,
        }),
    }
}

fn tcp_connects(family: IpAddressFamily) -> Try {
    let socket = tcp_create_socket::create_tcp_socket(family).map_err(at("socket"))?;
    let network = instance_network::instance_network();
    socket.start_connect(&network, everybody(family, 80)).map_err(at("connect"))?;
    socket.subscribe().block();
    socket.finish_connect().map(|_| "connected".into()).map_err(at("connect"))
}

fn tcp_listens(family: IpAddressFamily) -> Try {
    let socket = tcp_create_socket::create_tcp_socket(family).map_err(at("socket"))?;
    let network = instance_network::instance_network();
    socket.start_bind(&network, everybody(family, 0)).map_err(at("bind"))?;
    socket.finish_bind().map_err(at("bind"))?;
    socket.start_listen().map_err(at("listen"))?;
    socket.finish_listen().map(|()| "listens".into()).map_err(at("listen"))
}

fn udp_sends(family: IpAddressFamily) -> Try {
    let socket = udp_create_socket::create_udp_socket(family).map_err(at("socket"))?;
    let network = instance_network::instance_network();
    socket.start_bind(&network, everybody(family, 0)).map_err(at("bind"))?;
    socket.finish_bind().map_err(at("bind"))?;
    socket.stream(Some(everybody(family, 53))).map(|_| "sends".into()).map_err(at("stream"))
}

fn looks_up(name: &str) -> Try {
    let network = instance_network::instance_network();
    let found = ip_name_lookup::resolve_addresses(&network, name).map_err(at("look-up"))?;
    found.subscribe().block();
    found.resolve_next_address().map(|_| "found".into()).map_err(at("answer"))
}

impl Environment for Guest {
    const NAME: &'static str = "hostile-network";

    fn start(_task: &str, _seed: u64) -> Result<(Self, String)> {
        Ok((Guest, "act".into()))
    }

    fn step(&mut self, _action: &str, _signals: &mut Signals) -> Result<Next> {
        let (four, six) = (IpAddressFamily::Ipv4, IpAddressFamily::Ipv6);
        let tries = [
            ("tcp", tcp_connects(four)),
            ("tcp6", tcp_connects(six)),
            ("listen", tcp_listens(four)),
            ("listen6", tcp_listens(six)),
            ("udp", udp_sends(four)),
            ("udp6", udp_sends(six)),
            ("localhost", looks_up("localhost")),
            ("name", looks_up("example.com")),
            ("address", looks_up("127.0.0.1")),
        ];
        let lines: Vec<String> =
            tries.into_iter().map(|(what, end)| format!("{what}: {}", end.unwrap_or_else(|why| why))).collect();
        Ok(Next::Done(lines.join("\n")))
    }
}

export_environment!(Guest);
