/* TLS 1.3, without tickets, renegotiation and 0-RTT, and with a certificate of either side. */
#include "tls.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    KEY_RECORDS = 1 << 23,                   /* of AES-GCM under one key: RFC 8446, section 5.5, allows 2^24.5 */
    WRITE_BYTES = TLS_UNFLUSHED + (1 << 10), /* four records, and what is around them and between them */
    READ_BYTES = 65 << 10, /* that one call of the kernel brings at most: four records, and what is around them */
};

/* In the order in which this node prefers them. AES-128 is as strong as the keys of nodes (P-256), and AES-256 is slower. */
static const char ciphers[] = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

static void say_reason(const struct openssl *o, struct tls_fault *fault)
{
    unsigned long code = o->ERR_peek_last_error();
    const char *reason = code ? o->ERR_reason_error_string(code) : NULL;
    snprintf(fault->reason, sizeof fault->reason, "%s", reason ? reason : "");
    for (char *at = fault->reason; *at; at++) *at = *at == ' ' ? '_' : (char)toupper((unsigned char)*at);
}

/* ---- keys ---- */

static int no_password(char *buffer, int size, int is_writing, void *argument)
{
    (void)buffer, (void)size, (void)is_writing, (void)argument;
    return 0; /* and nobody is asked on a terminal */
}

static bool use_keys(SSL_CTX *context, const struct openssl *o, struct tls_pem pem)
{
    BIO *one = o->BIO_new_mem_buf(pem.bytes, (int)pem.size), *two = o->BIO_new_mem_buf(pem.bytes, (int)pem.size);
    EVP_PKEY *key = one ? o->PEM_read_bio_PrivateKey(one, NULL, no_password, NULL) : NULL;
    X509 *certificate = two ? o->PEM_read_bio_X509(two, NULL, no_password, NULL) : NULL;
    bool is_used = key && certificate && o->SSL_CTX_use_certificate(context, certificate) == 1 &&
                   o->SSL_CTX_use_PrivateKey(context, key) == 1 && o->SSL_CTX_check_private_key(context) == 1;
    if (key) o->EVP_PKEY_free(key);
    if (certificate) o->X509_free(certificate);
    if (one) o->BIO_free(one);
    if (two) o->BIO_free(two);
    return is_used;
}

static void restrict_it(SSL_CTX *context, const struct openssl *o)
{
    o->SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, NULL);
    o->SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, TLS1_3_VERSION, NULL);
    o->SSL_CTX_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE, 0, NULL);
    o->SSL_CTX_ctrl(context, SSL_CTRL_SET_READ_AHEAD, 1, NULL); /* a call of the kernel for several records */
    o->SSL_CTX_set_default_read_buffer_len(context, READ_BYTES);
    o->SSL_CTX_set_ciphersuites(context, ciphers);
    o->SSL_CTX_ctrl(context, SSL_CTRL_MODE, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, NULL);
    o->SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    o->SSL_CTX_set_num_tickets(context, 0);
    o->SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    o->X509_VERIFY_PARAM_set_flags(o->SSL_CTX_get0_param(context), X509_V_FLAG_X509_STRICT);
}

bool tls_context_open(struct tls_context *c, const struct openssl *o, struct tls_pem pem, struct tls_fault *fault)
{
    c->library = o;
    o->ERR_clear_error();
    c->context = o->SSL_CTX_new(c->is_server ? o->TLS_server_method() : o->TLS_client_method());
    if (c->context) restrict_it(c->context, o);
    if (c->context && use_keys(c->context, o, pem)) return true;
    *fault = (struct tls_fault){0};
    say_reason(o, fault);
    tls_context_close(c);
    return false;
}

bool tls_context_trust(struct tls_context *c, const uint8_t *der, size_t size)
{
    const struct openssl *o = c->library;
    X509 *authority = o->d2i_X509(NULL, &der, (long)size);
    bool is_added = authority && o->X509_STORE_add_cert(o->SSL_CTX_get_cert_store(c->context), authority) == 1;
    if (is_added && c->is_server) o->SSL_CTX_add_client_CA(c->context, authority);
    if (authority) o->X509_free(authority);
    o->ERR_clear_error();
    return is_added;
}

void tls_context_close(struct tls_context *c)
{
    if (c->context) c->library->SSL_CTX_free(c->context);
    c->context = NULL;
}

/* ---- a connection ---- */

/* What OpenSSL writes goes to a buffer: else each record would be a call of the kernel. */
static BIO *buffer_before(const struct openssl *o, int descriptor)
{
    BIO *buffer = o->BIO_new(o->BIO_f_buffer()), *socket = o->BIO_new_socket(descriptor, BIO_NOCLOSE);
    if (buffer && socket && o->BIO_int_ctrl(buffer, BIO_C_SET_BUFF_SIZE, WRITE_BYTES, 1) == 1)
        return o->BIO_push(buffer, socket);
    if (buffer) o->BIO_free(buffer);
    if (socket) o->BIO_free(socket);
    return NULL;
}

bool tls_open(struct tls *t, const struct tls_context *c, int descriptor)
{
    const struct openssl *o = c->library;
    *t = (struct tls){.library = o, .ssl = o->SSL_new(c->context)};
    if (!t->ssl || o->SSL_set_rfd(t->ssl, descriptor) != 1) return tls_close(t), false;
    t->records_out = buffer_before(o, descriptor);
    if (!t->records_out) return tls_close(t), false;
    o->SSL_set0_wbio(t->ssl, t->records_out);
    if (c->is_server)
        o->SSL_set_accept_state(t->ssl);
    else
        o->SSL_set_connect_state(t->ssl);
    return true;
}

/* The state after a call that has returned `result`, not above 0. */
static enum tls_state state_of(struct tls *t, int result, struct tls_fault *fault)
{
    const struct openssl *o = t->library;
    int saved = errno, error = o->SSL_get_error(t->ssl, result);
    *fault = (struct tls_fault){0};
    if (error == SSL_ERROR_WANT_READ) return TLS_WANTS_READ;
    if (error == SSL_ERROR_WANT_WRITE) return TLS_WANTS_WRITE;
    if (error == SSL_ERROR_ZERO_RETURN) return TLS_CLOSED;
    say_reason(o, fault);
    fault->verify_code = o->SSL_get_verify_result(t->ssl);
    snprintf(fault->verify_words, sizeof fault->verify_words, "%s",
             o->X509_verify_cert_error_string(fault->verify_code));
    errno = error == SSL_ERROR_SYSCALL ? saved : 0;
    return TLS_FAILED;
}

enum tls_state tls_handshake(struct tls *t, struct tls_fault *fault)
{
    t->library->ERR_clear_error();
    errno = 0;
    int result = t->library->SSL_do_handshake(t->ssl);
    return result == 1 ? TLS_DONE : state_of(t, result, fault);
}

enum tls_state tls_read(struct tls *t, void *to, size_t space, size_t *got, struct tls_fault *fault)
{
    t->library->ERR_clear_error();
    errno = 0;
    int result = t->library->SSL_read(t->ssl, to, (int)space);
    *got = result > 0 ? (size_t)result : 0;
    return result > 0 ? TLS_DONE : state_of(t, result, fault);
}

enum tls_state tls_write(struct tls *t, const void *bytes, size_t size, size_t *written, struct tls_fault *fault)
{
    t->library->ERR_clear_error();
    errno = 0;
    if (++t->records >= KEY_RECORDS && t->library->SSL_key_update(t->ssl, SSL_KEY_UPDATE_REQUESTED) == 1)
        t->records = 0;
    int result = t->library->SSL_write(t->ssl, bytes, (int)size);
    *written = result > 0 ? (size_t)result : 0;
    return result > 0 ? TLS_DONE : state_of(t, result, fault);
}

enum tls_state tls_flush(struct tls *t, struct tls_fault *fault)
{
    const struct openssl *o = t->library;
    o->ERR_clear_error();
    errno = 0;
    if (o->BIO_ctrl(t->records_out, BIO_CTRL_FLUSH, 0, NULL) > 0) return TLS_DONE;
    if (o->BIO_test_flags(t->records_out, BIO_FLAGS_SHOULD_RETRY)) return TLS_WANTS_WRITE;
    *fault = (struct tls_fault){0};
    return say_reason(o, fault), TLS_FAILED;
}

size_t tls_peer(const struct tls *t, uint8_t *der)
{
    X509 *certificate = t->library->SSL_get1_peer_certificate(t->ssl);
    if (!certificate) return 0;
    int size = t->library->i2d_X509(certificate, der ? &der : NULL);
    t->library->X509_free(certificate);
    return size > 0 ? (size_t)size : 0;
}

const char *tls_cipher(const struct tls *t)
{
    const SSL_CIPHER *cipher = t->library->SSL_get_current_cipher(t->ssl);
    return cipher ? t->library->SSL_CIPHER_get_name(cipher) : "";
}

void tls_close(struct tls *t)
{
    if (t->ssl) t->library->SSL_free(t->ssl);
    t->ssl = NULL;
}
