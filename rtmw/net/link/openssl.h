/* The part of OpenSSL that links call, in our own words: it is bound by name at run time, for no headers of it are needed
 * to build, and one that Python has loaded is used in place of a second one. All of it is public in OpenSSL 3.
 */
#ifndef RTMW_LINK_OPENSSL_H
#define RTMW_LINK_OPENSSL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
typedef int (*password_callback)(char *, int, int, void *);

enum {
    SSL_ERROR_SSL = 1,
    SSL_ERROR_WANT_READ = 2,
    SSL_ERROR_WANT_WRITE = 3,
    SSL_ERROR_SYSCALL = 5,
    SSL_ERROR_ZERO_RETURN = 6,
    SSL_VERIFY_PEER = 1,
    SSL_VERIFY_FAIL_IF_NO_PEER_CERT = 2,
    SSL_CTRL_MODE = 33,
    SSL_CTRL_SET_READ_AHEAD = 41,
    SSL_CTRL_SET_SESS_CACHE_MODE = 44,
    SSL_CTRL_SET_MIN_PROTO_VERSION = 123,
    SSL_CTRL_SET_MAX_PROTO_VERSION = 124,
    SSL_MODE_ENABLE_PARTIAL_WRITE = 1,
    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER = 2,
    SSL_KEY_UPDATE_REQUESTED = 1,
    TLS1_3_VERSION = 0x0304,
    X509_V_FLAG_X509_STRICT = 0x20,
    BIO_NOCLOSE = 0,
    BIO_CTRL_FLUSH = 11,
    BIO_C_SET_BUFF_SIZE = 117,
    BIO_FLAGS_SHOULD_RETRY = 8,
};
#define SSL_OP_NO_TICKET        (UINT64_C(1) << 14)
#define SSL_OP_NO_COMPRESSION   (UINT64_C(1) << 17)
#define SSL_OP_NO_RENEGOTIATION (UINT64_C(1) << 30)

/* Name, result, arguments. */
#define OPENSSL_FUNCTIONS(f)                                                                 \
    f(TLS_server_method, const SSL_METHOD *, (void));                                        \
    f(TLS_client_method, const SSL_METHOD *, (void));                                        \
    f(SSL_CTX_new, SSL_CTX *, (const SSL_METHOD *));                                         \
    f(SSL_CTX_free, void, (SSL_CTX *));                                                      \
    f(SSL_CTX_ctrl, long, (SSL_CTX *, int, long, void *));                                   \
    f(SSL_CTX_set_options, uint64_t, (SSL_CTX *, uint64_t));                                 \
    f(SSL_CTX_set_default_read_buffer_len, void, (SSL_CTX *, size_t));                       \
    f(SSL_CTX_set_ciphersuites, int, (SSL_CTX *, const char *));                             \
    f(SSL_CTX_set_num_tickets, int, (SSL_CTX *, size_t));                                    \
    f(SSL_CTX_set_verify, void, (SSL_CTX *, int, void *));                                   \
    f(SSL_CTX_get_cert_store, X509_STORE *, (const SSL_CTX *));                              \
    f(SSL_CTX_get0_param, X509_VERIFY_PARAM *, (SSL_CTX *));                                 \
    f(SSL_CTX_use_certificate, int, (SSL_CTX *, X509 *));                                    \
    f(SSL_CTX_use_PrivateKey, int, (SSL_CTX *, EVP_PKEY *));                                 \
    f(SSL_CTX_check_private_key, int, (const SSL_CTX *));                                    \
    f(SSL_CTX_add_client_CA, int, (SSL_CTX *, X509 *));                                      \
    f(SSL_new, SSL *, (SSL_CTX *));                                                          \
    f(SSL_free, void, (SSL *));                                                              \
    f(SSL_set_rfd, int, (SSL *, int));                                                       \
    f(SSL_set0_wbio, void, (SSL *, BIO *));                                                  \
    f(SSL_set_accept_state, void, (SSL *));                                                  \
    f(SSL_set_connect_state, void, (SSL *));                                                 \
    f(SSL_do_handshake, int, (SSL *));                                                       \
    f(SSL_read, int, (SSL *, void *, int));                                                  \
    f(SSL_write, int, (SSL *, const void *, int));                                           \
    f(SSL_get_error, int, (const SSL *, int));                                               \
    f(SSL_get_verify_result, long, (const SSL *));                                           \
    f(SSL_get1_peer_certificate, X509 *, (const SSL *));                                     \
    f(SSL_get_current_cipher, const SSL_CIPHER *, (const SSL *));                            \
    f(SSL_CIPHER_get_name, const char *, (const SSL_CIPHER *));                              \
    f(SSL_key_update, int, (SSL *, int));                                                    \
    f(X509_VERIFY_PARAM_set_flags, int, (X509_VERIFY_PARAM *, unsigned long));               \
    f(X509_STORE_add_cert, int, (X509_STORE *, X509 *));                                     \
    f(X509_verify_cert_error_string, const char *, (long));                                  \
    f(X509_free, void, (X509 *));                                                            \
    f(d2i_X509, X509 *, (X509 **, const uint8_t **, long));                                  \
    f(i2d_X509, int, (const X509 *, uint8_t **));                                            \
    f(PEM_read_bio_X509, X509 *, (BIO *, X509 **, password_callback, void *));               \
    f(PEM_read_bio_PrivateKey, EVP_PKEY *, (BIO *, EVP_PKEY **, password_callback, void *)); \
    f(EVP_PKEY_free, void, (EVP_PKEY *));                                                    \
    f(BIO_new_mem_buf, BIO *, (const void *, int));                                          \
    f(BIO_f_buffer, const BIO_METHOD *, (void));                                             \
    f(BIO_new, BIO *, (const BIO_METHOD *));                                                 \
    f(BIO_new_socket, BIO *, (int, int));                                                    \
    f(BIO_push, BIO *, (BIO *, BIO *));                                                      \
    f(BIO_int_ctrl, long, (BIO *, int, long, int));                                          \
    f(BIO_ctrl, long, (BIO *, int, long, void *));                                           \
    f(BIO_test_flags, int, (const BIO *, int));                                              \
    f(BIO_free, int, (BIO *));                                                               \
    f(ERR_clear_error, void, (void));                                                        \
    f(ERR_peek_last_error, unsigned long, (void));                                           \
    f(ERR_reason_error_string, const char *, (unsigned long));                               \
    f(OpenSSL_version, const char *, (int));

struct openssl {
#define DECLARE(name, result, arguments) result(*name) arguments
    OPENSSL_FUNCTIONS(DECLARE)
#undef DECLARE
};

/* `path`: of its libssl; "": the usual one. NULL: `words`, of `size` bytes, says why none can be had. Any thread; loads a
 * library at the first call, for good. */
const struct openssl *openssl_find(const char *path, char *words, size_t size);

#endif
