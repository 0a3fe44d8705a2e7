//! Attribute for the traits of ports in `reqlore-domain`.

use proc_macro::TokenStream;
use quote::{format_ident, quote};
use syn::{FnArg, ItemTrait, TraitItem, parse_macro_input};

/// Implements a port for `ObservedPort<dyn Port>`. An asynchronous method is an operation with the
/// name of the method. Precedes `#[async_trait]`.
#[proc_macro_attribute]
pub fn observed(_: TokenStream, port: TokenStream) -> TokenStream {
    let mut port = parse_macro_input!(port as ItemTrait);
    let name = port.ident.clone();
    let mut methods = Vec::new();
    let mut operations = Vec::new();
    for item in &mut port.items {
        let TraitItem::Fn(method) = item else { continue };
        let mut signature = method.sig.clone();
        let mut arguments = Vec::new();
        for (number, input) in signature.inputs.iter_mut().enumerate() {
            if let FnArg::Typed(argument) = input {
                // A default method may ignore an argument, and then it has no name.
                let name = format_ident!("argument_{number}");
                *argument.pat = syn::parse_quote!(#name);
                arguments.push(name);
            }
        }
        let ident = &signature.ident;
        let call = quote!(self.inner.#ident(#(#arguments),*));
        if signature.asyncness.is_none() {
            methods.push(quote!(#signature { #call }));
            continue;
        }
        let operation = ident.to_string();
        methods.push(quote!(#signature {
            let _running = self.observer.begin(#operation);
            #call.await
        }));
        operations.push(operation);
    }
    quote! {
        #port

        #[async_trait::async_trait]
        impl<O: crate::ports::observed::OperationObserver> #name
            for crate::ports::observed::ObservedPort<dyn #name, O>
        {
            #(#methods)*
        }

        impl crate::ports::observed::PortOperations for dyn #name {
            const OPERATIONS: &'static [&'static str] = &[#(#operations),*];
        }
    }
    .into()
}
