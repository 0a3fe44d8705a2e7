mod connect_options;
mod connections;
