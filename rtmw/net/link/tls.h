/* TLS 1.3 of a connection. A failure is told as a reason of OpenSSL, for which tls_errors.py has the words. */
#ifndef RTMW_LINK_TLS_H
#define RTMW_LINK_TLS_H

#include <sys/types.h>

#include "openssl.h"

enum {
    TLS_WORDS = 160,
    TLS_UNFLUSHED = 64 << 10, /* bytes that tls_write takes before tls_flush */
};

struct tls_fault {
    char reason[TLS_WORDS]; /* as Python's ssl has it: "TLSV13_ALERT_CERTIFICATE_REQUIRED"; "": none */
    char verify_words[TLS_WORDS];
    long verify_code; /* 0: the certificate was not what failed */
};

struct tls_context {
    const struct openssl *library;
    SSL_CTX *context;
    bool is_server;
};

struct tls {
    const struct openssl *library;
    SSL *ssl;
    BIO *records_out; /* what was written, until it is flushed. Of `ssl` */
    uint64_t records; /* written since the keys were new */
};

enum tls_state { TLS_DONE, TLS_WANTS_READ, TLS_WANTS_WRITE, TLS_CLOSED, TLS_FAILED };

struct tls_pem {
    const void *bytes;
    size_t size;
};

/* Keys of this node: private key and certificate. Any thread. false: `fault` says why. */
bool tls_context_open(struct tls_context *, const struct openssl *, struct tls_pem, struct tls_fault *);
/* One more authority, in DER, before the first connection. false: that is no certificate. */
bool tls_context_trust(struct tls_context *, const uint8_t *der, size_t size);
void tls_context_close(struct tls_context *);

/* All of these: one thread at a time for each `struct tls`. None blocks, for the descriptor does not. */
bool tls_open(struct tls *, const struct tls_context *, int descriptor);
enum tls_state tls_handshake(struct tls *, struct tls_fault *);
enum tls_state tls_read(struct tls *, void *to, size_t space, size_t *got, struct tls_fault *);
/* A record. It goes no further than a buffer, which has room for TLS_UNFLUSHED bytes. */
enum tls_state tls_write(struct tls *, const void *bytes, size_t size, size_t *written, struct tls_fault *);
/* What was written leaves with it, in one call of the kernel if that takes it all. DONE, WANTS_WRITE, or FAILED. */
enum tls_state tls_flush(struct tls *, struct tls_fault *);
/* The peer's certificate in DER; `der` NULL: its size. 0: it has shown none. */
size_t tls_peer(const struct tls *, uint8_t *der);
const char *tls_cipher(const struct tls *);
void tls_close(struct tls *);

#endif
