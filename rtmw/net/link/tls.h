/* TLS 1.3 of a connection, and its records. */
#ifndef RTMW_LINK_TLS_H
#define RTMW_LINK_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* ---- OpenSSL ---- */

/* The part of OpenSSL that links call, in our own words: it is bound by name at run time, for no headers of it are needed
 * to build, and one that Python has loaded is used in place of a second one. All of it is public in OpenSSL 3.
 */

typedef struct ssl_method SSL_METHOD;
typedef struct ssl_ctx SSL_CTX;
typedef struct ssl SSL;
typedef struct bio BIO;
typedef struct bio_method BIO_METHOD;
typedef struct x509 X509;
typedef struct evp_pkey EVP_PKEY;
typedef struct x509_store X509_STORE;
typedef struct x509_verify_param X509_VERIFY_PARAM;
typedef struct ssl_cipher SSL_CIPHER;
typedef struct evp_cipher EVP_CIPHER;
typedef struct evp_cipher_ctx EVP_CIPHER_CTX;
typedef struct evp_md EVP_MD;
typedef int (*password_callback)(char *, int, int, void *);
typedef void (*keylog_callback)(const SSL *, const char *line);

enum {
    SSL_ERROR_SSL = 1,
    SSL_ERROR_WANT_READ = 2,
    SSL_ERROR_WANT_WRITE = 3,
    SSL_ERROR_SYSCALL = 5,
    SSL_ERROR_ZERO_RETURN = 6,
    SSL_VERIFY_PEER = 1,
    SSL_VERIFY_FAIL_IF_NO_PEER_CERT = 2,
    SSL_CTRL_SET_SESS_CACHE_MODE = 44,
    SSL_CTRL_SET_MIN_PROTO_VERSION = 123,
    SSL_CTRL_SET_MAX_PROTO_VERSION = 124,
    TLS1_3_VERSION = 0x0304,
    X509_V_FLAG_X509_STRICT = 0x20,
    EVP_CTRL_AEAD_GET_TAG = 16,
    EVP_CTRL_AEAD_SET_TAG = 17,
    ERR_LIB_SSL = 20,
    ERR_LIB_SHIFT = 23,
    SSL_AD_REASON_OFFSET = 1000, /* to which an alert is added */
};
#define SSL_OP_ENABLE_KTLS      (UINT64_C(1) << 3)
#define SSL_OP_NO_TICKET        (UINT64_C(1) << 14)
#define SSL_OP_NO_COMPRESSION   (UINT64_C(1) << 17)
#define SSL_OP_NO_RENEGOTIATION (UINT64_C(1) << 30)

/* Name, result, arguments. */
#define OPENSSL_FUNCTIONS(f)                                                                                          \
    f(TLS_server_method, const SSL_METHOD *, (void));                                                                 \
    f(TLS_client_method, const SSL_METHOD *, (void));                                                                 \
    f(SSL_CTX_new, SSL_CTX *, (const SSL_METHOD *));                                                                  \
    f(SSL_CTX_free, void, (SSL_CTX *));                                                                               \
    f(SSL_CTX_ctrl, long, (SSL_CTX *, int, long, void *));                                                            \
    f(SSL_CTX_set_options, uint64_t, (SSL_CTX *, uint64_t));                                                          \
    f(SSL_CTX_clear_options, uint64_t, (SSL_CTX *, uint64_t));                                                        \
    f(SSL_CTX_set_ciphersuites, int, (SSL_CTX *, const char *));                                                      \
    f(SSL_CTX_set_num_tickets, int, (SSL_CTX *, size_t));                                                             \
    f(SSL_CTX_set_verify, void, (SSL_CTX *, int, void *));                                                            \
    f(SSL_CTX_get_cert_store, X509_STORE *, (const SSL_CTX *));                                                       \
    f(SSL_CTX_get0_param, X509_VERIFY_PARAM *, (SSL_CTX *));                                                          \
    f(SSL_CTX_use_certificate, int, (SSL_CTX *, X509 *));                                                             \
    f(SSL_CTX_use_PrivateKey, int, (SSL_CTX *, EVP_PKEY *));                                                          \
    f(SSL_CTX_check_private_key, int, (const SSL_CTX *));                                                             \
    f(SSL_CTX_add_client_CA, int, (SSL_CTX *, X509 *));                                                               \
    f(SSL_CTX_set_keylog_callback, void, (SSL_CTX *, keylog_callback));                                               \
    f(SSL_new, SSL *, (SSL_CTX *));                                                                                   \
    f(SSL_free, void, (SSL *));                                                                                       \
    f(SSL_set_fd, int, (SSL *, int));                                                                                 \
    f(SSL_set_accept_state, void, (SSL *));                                                                           \
    f(SSL_set_connect_state, void, (SSL *));                                                                          \
    f(SSL_do_handshake, int, (SSL *));                                                                                \
    f(SSL_has_pending, int, (const SSL *));                                                                           \
    f(SSL_get_error, int, (const SSL *, int));                                                                        \
    f(SSL_get_verify_result, long, (const SSL *));                                                                    \
    f(SSL_get1_peer_certificate, X509 *, (const SSL *));                                                              \
    f(SSL_get_current_cipher, const SSL_CIPHER *, (const SSL *));                                                     \
    f(SSL_CIPHER_get_name, const char *, (const SSL_CIPHER *));                                                       \
    f(SSL_CIPHER_get_protocol_id, uint16_t, (const SSL_CIPHER *));                                                    \
    f(X509_VERIFY_PARAM_set_flags, int, (X509_VERIFY_PARAM *, unsigned long));                                        \
    f(X509_STORE_add_cert, int, (X509_STORE *, X509 *));                                                              \
    f(X509_verify_cert_error_string, const char *, (long));                                                           \
    f(X509_free, void, (X509 *));                                                                                     \
    f(d2i_X509, X509 *, (X509 **, const uint8_t **, long));                                                           \
    f(i2d_X509, int, (const X509 *, uint8_t **));                                                                     \
    f(PEM_read_bio_X509, X509 *, (BIO *, X509 **, password_callback, void *));                                        \
    f(PEM_read_bio_PrivateKey, EVP_PKEY *, (BIO *, EVP_PKEY **, password_callback, void *));                          \
    f(EVP_PKEY_free, void, (EVP_PKEY *));                                                                             \
    f(EVP_aes_128_gcm, const EVP_CIPHER *, (void));                                                                   \
    f(EVP_aes_256_gcm, const EVP_CIPHER *, (void));                                                                   \
    f(EVP_chacha20_poly1305, const EVP_CIPHER *, (void));                                                             \
    f(EVP_sha256, const EVP_MD *, (void));                                                                            \
    f(EVP_sha384, const EVP_MD *, (void));                                                                            \
    f(EVP_CIPHER_CTX_new, EVP_CIPHER_CTX *, (void));                                                                  \
    f(EVP_CIPHER_CTX_free, void, (EVP_CIPHER_CTX *));                                                                 \
    f(EVP_CIPHER_CTX_ctrl, int, (EVP_CIPHER_CTX *, int, int, void *));                                                \
    f(EVP_CipherInit_ex, int, (EVP_CIPHER_CTX *, const EVP_CIPHER *, void *, const uint8_t *, const uint8_t *, int)); \
    f(EVP_CipherUpdate, int, (EVP_CIPHER_CTX *, uint8_t *, int *, const uint8_t *, int));                             \
    f(EVP_CipherFinal_ex, int, (EVP_CIPHER_CTX *, uint8_t *, int *));                                                 \
    f(HMAC, uint8_t *, (const EVP_MD *, const void *, int, const uint8_t *, size_t, uint8_t *, unsigned *));          \
    f(OPENSSL_cleanse, void, (void *, size_t));                                                                       \
    f(BIO_new_mem_buf, BIO *, (const void *, int));                                                                   \
    f(BIO_free, int, (BIO *));                                                                                        \
    f(ERR_clear_error, void, (void));                                                                                 \
    f(ERR_peek_last_error, unsigned long, (void));                                                                    \
    f(ERR_reason_error_string, const char *, (unsigned long));                                                        \
    f(OpenSSL_version, const char *, (int));

struct openssl {
#define DECLARE(name, result, arguments) result(*name) arguments
    OPENSSL_FUNCTIONS(DECLARE)
#undef DECLARE
};

/* `path`: of its libssl; "": the usual one. NULL: `words`, of `size` bytes, says why none can be had. Any thread; loads a
 * library at the first call, for good. */
const struct openssl *openssl_find(const char *path, char *words, size_t size);

/* ---- tls record ---- */

/* Records of TLS 1.3 (RFC 8446, sections 5 and 7.3), which links seal and open themselves behind OpenSSL's handshake:
 *
 *   | 23 | 3 3 | length |  bytes … | type |  tag  |
 *     header, as it is     encrypted         16
 *
 * OpenSSL's own calls copy each record at either end. These encrypt out of the place where the bytes lie, in as many parts as
 * they are, and decrypt into the place where they are to lie. The ciphers are OpenSSL's.
 */

enum {
    RECORD_MOST = 1 << 14, /* bytes in a record */
    RECORD_HEADER = 5,
    RECORD_TAG = 16,
    RECORD_AROUND = RECORD_HEADER + 1 + RECORD_TAG,
    RECORD_LONGEST = RECORD_MOST + RECORD_AROUND,
    RECORD_SECRET = 48,
};

enum record_type { RECORD_ALERT = 21, RECORD_HANDSHAKE = 22, RECORD_DATA = 23 };

/* Of one direction. One thread at a time. */
struct record_keys {
    const struct openssl *library;
    const struct record_suite *suite;
    EVP_CIPHER_CTX *context; /* NULL: there are none */
    bool seals;              /* else it opens. Set before record_keys_open */
    uint8_t secret[RECORD_SECRET], iv[12];
    uint64_t number; /* of the next record under these keys */
};

/* Bytes in several parts, from `passed` bytes of the first on. */
struct record_parts {
    const struct iovec *part;
    size_t passed;
};

/* `suite`: its two bytes; `secret`: the traffic secret, RECORD_SECRET bytes of which as many are used as its hash has. false: a
 * suite that is none of ours, or no memory. */
bool record_keys_open(struct record_keys *, const struct openssl *, uint16_t suite, const uint8_t *secret);
bool record_keys_update(struct record_keys *); /* to those that follow a KeyUpdate */
void record_keys_close(struct record_keys *);  /* idempotent. Nothing of them stays in memory */

/* Writes a record with the next `size` bytes of the parts, RECORD_MOST at most. Returns its length; 0: the cipher has failed. */
size_t record_seal(struct record_keys *, enum record_type, struct record_parts *, size_t size, uint8_t *to);
/* Of a header: RECORD_HEADER bytes. */
enum record_check { RECORD_GOOD, RECORD_OTHER, RECORD_LONG, RECORD_SHORT }; /* OTHER: a type or version of none here */
enum record_check record_check(const uint8_t *header);
/* The record's length by its header, of which RECORD_HEADER bytes are there. 0: TLS 1.3 has no such record here. */
size_t record_length(const uint8_t *record);
/* Of a record that has come whole, and has a length: writes its bytes to the parts, RECORD_AROUND less than the length, and to
 * `type` the last one: the type, or 0 of padding. A part may be the record's own memory behind the header. false: it is not
 * what the peer has sealed, and what was written is worth nothing. */
bool record_open(struct record_keys *, uint8_t *record, struct record_parts *, uint8_t *type);

/* ---- the connection ---- */

/* TLS 1.3 of a connection. A failure is told as a reason of OpenSSL, for which session/errors.py has the words. */

enum {
    TLS_WORDS = 160,
    TLS_KEY_RECORDS = 1 << 23, /* of AES-GCM under one key: RFC 8446, section 5.5, allows 2^24.5 */
    TLS_BUFFER = 257 << 10,    /* sixteen records, and what is around them */
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

enum tls_state { TLS_DONE, TLS_WANTS_READ, TLS_WANTS_WRITE, TLS_CLOSED, TLS_FAILED };

/* The handshake is OpenSSL's. What follows it are records, which tls.c reads and writes: reader and writer may be two
 * threads, and share what is marked. */
struct tls {
    const struct openssl *library;
    SSL *ssl;
    int descriptor;
    bool is_server;
    uint8_t secrets[2][RECORD_SECRET]; /* of client and server, as the handshake tells them */
    bool has_secret[2];
    struct record_keys in, out;
    size_t first, end;         /* of `received`: records that are not opened */
    size_t plain, plain_end;   /* of `received`: bytes of one that was opened, and had no room */
    uint32_t bare;             /* records in a row that had no bytes for the line */
    enum tls_state ended;      /* DONE: it has not */
    uint8_t alert;             /* what the peer is told at the end; 0: that this end closes, if nothing has failed */
    uint32_t must_update;      /* the peer has asked for new keys. Of both, atomically */
    size_t unsent, sealed_end; /* of `sealed`: what the kernel has not taken */
    uint8_t received[TLS_BUFFER], sealed[TLS_BUFFER];
};

struct tls_pem {
    const void *bytes;
    size_t size;
};

/* Keys of this node: private key and certificate. Any thread. false: `fault` says why. */
bool tls_context_open(struct tls_context *, const struct openssl *, struct tls_pem, struct tls_fault *);
/* One more authority, in DER, before the first connection. false: that is no certificate. */
bool tls_context_trust(struct tls_context *, const uint8_t *der, size_t size);
void tls_context_close(struct tls_context *);

/* None blocks, for the descriptor does not. Open, handshake, close: while nobody reads or writes. */
bool tls_open(struct tls *, const struct tls_context *, int descriptor);
enum tls_state tls_handshake(struct tls *, struct tls_fault *);
/* tls.c. After the handshake one thread may read while another one writes and flushes. Before, each goes on with it. */
/* Into the parts, from as many records as have come whole. What fails or ends behind bytes that it has read is told by the next
 * call, with the `fault` of this one. */
enum tls_state tls_read(struct tls *, const struct iovec *part, uint32_t parts, size_t *got, struct tls_fault *);
/* One record of the first bytes in the parts. It goes no further than a buffer, which has room for sixteen. */
enum tls_state tls_write(struct tls *, const struct iovec *part, uint32_t parts, size_t *written, struct tls_fault *);
/* What was written leaves with it, in one call of the kernel if that takes it all; is_followed: more comes at once. DONE,
 * WANTS_WRITE, or FAILED. */
enum tls_state tls_flush(struct tls *, bool is_followed, struct tls_fault *);
void tls_say_alert(struct tls *); /* the last record: a failure, or close_notify, as far as the kernel takes it */
void tls_say_reason(const struct openssl *, unsigned long code, struct tls_fault *); /* of OpenSSL's errors; 0: none */
/* The peer's certificate in DER; `der` NULL: its size. 0: it has shown none. */
size_t tls_peer(const struct tls *, uint8_t *der);
const char *tls_cipher(const struct tls *);
void tls_close(struct tls *);

#endif
