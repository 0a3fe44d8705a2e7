mod connect_options;
mod connections;
mod tls;
